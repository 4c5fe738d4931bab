"""The statements of the limit on PostgreSQL. Rows are named by arrays, so that no plan can flip to a scan of a table."""

PLAIN = """
CREATE TABLE IF NOT EXISTS plain (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, lane integer, state text,
    priority integer, attempt integer, attempts_max integer, created_at bigint, arguments text)
"""

INSERT_PLAIN = """
INSERT INTO plain (id, lane, state, priority, attempt, attempts_max, created_at, arguments)
VALUES (%s, 1, 'ready', 100, 0, 3, %s, %s)
"""

INSERT_MANY = """
WITH run AS MATERIALIZED (SELECT nextval('holdfast.job_seq') AS first),
new AS MATERIALIZED (
    SELECT run.first + given.number - 1 AS seq, given.id, given.arguments
      FROM run, unnest(%(ids)s::text[], %(arguments)s::text[]) WITH ORDINALITY AS given (id, arguments, number)),
body AS (
    INSERT INTO holdfast.body (seq, created_at, lane, priority, attempts_max, id, arguments)
    SELECT seq, %(now)s, 1, 100, 3, id, arguments FROM new)
INSERT INTO holdfast.ready (lane, priority, seq) SELECT 1, 100, seq FROM new
"""

CLAIM = """
WITH taken AS (
    DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM holdfast.ready WHERE lane = 1 AND (priority, seq) > (100, %(after)s)
         ORDER BY lane, priority, seq LIMIT %(batch)s FOR UPDATE SKIP LOCKED))
    RETURNING seq),
started AS (
    INSERT INTO holdfast.moved (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, 1, 'running', 1, 1, 2, %(now)s FROM taken
    RETURNING seq, token, attempt, event_count),
leased AS (
    INSERT INTO holdfast.running (seq, worker, lease, token, lane) SELECT seq, 1, 15000000, token, 1 FROM started),
told AS (
    INSERT INTO holdfast.event (job, at, number, kind) SELECT seq, %(now)s, event_count, 'started' FROM started)
SELECT seq, token, attempt, (SELECT arguments FROM holdfast.body WHERE body.seq = started.seq) FROM started
"""

SETTLE = """
WITH ended AS (
    DELETE FROM holdfast.running USING unnest(%(seqs)s::bigint[], %(tokens)s::integer[]) AS outcome (seq, token)
     WHERE running.seq = ANY (%(seqs)s::bigint[]) AND running.seq = outcome.seq AND running.token = outcome.token
    RETURNING running.seq),
finished AS (
    UPDATE holdfast.moved SET state = 'succeeded', result = 'null', finished_at = %(now)s, event_count = event_count + 1
     WHERE seq = ANY (ARRAY (SELECT seq FROM ended))
    RETURNING seq, event_count),
kept AS (
    INSERT INTO holdfast.finished (finished_at, seq, lane, state) SELECT %(now)s, seq, 1, 'succeeded' FROM finished)
INSERT INTO holdfast.event (job, at, number, kind) SELECT seq, %(now)s, event_count, 'succeeded' FROM finished
"""
