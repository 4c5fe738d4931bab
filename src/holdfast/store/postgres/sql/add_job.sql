-- One job without key, tags or an id that the caller chose, ready at once: all of its rows. Nothing is written if there is no lane,
-- or if its queue is bounded.
WITH new AS MATERIALIZED (
    SELECT nextval('{schema}.job_seq') AS seq, lane FROM {schema}.lane WHERE queue = :queue::text AND task = :task::text AND bounded = 0
),
spec AS (
    INSERT INTO {schema}.job_spec (seq, id, lane, priority, attempts_max, created_at, arguments, meta, parent)
    SELECT seq, :id::text, lane, :priority::integer, :attempts_max::integer, :now::bigint, :arguments::text, :meta::text,
           :parent::text
      FROM new
)
INSERT INTO {schema}.ready (lane, priority, seq) SELECT lane, :priority::integer, seq FROM new
