-- What has changed about each job, its lease and its event at once: each by itself would look up the row again. A job that never
-- moved has no such row. (Nobody else can write one: we hold the jobs' rows of `ready`.) `leases` is {lane: microseconds},
-- :told is JSON without its end, {"worker":"…","attempt": — which is cheaper than building an object for every row.
WITH again AS (
    UPDATE holdfast.moved
       SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = :now::bigint
     WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    RETURNING seq, lane, attempt, token, event_count
),
first AS (
    INSERT INTO holdfast.moved (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, lane, 'running', 1, 1, 2, :now::bigint
      FROM holdfast.body AS body
     WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
       AND NOT EXISTS (SELECT 1 FROM holdfast.moved WHERE moved.seq = body.seq)
    RETURNING seq, lane, attempt, token, event_count
),
started AS (SELECT * FROM first UNION ALL SELECT * FROM again),
leased AS (
    INSERT INTO holdfast.running (seq, token, worker, lease, lane)
    SELECT seq, token, :worker::bigint, coalesce((:leases::jsonb ->> lane::text)::bigint, :lease::bigint), lane FROM started
)
INSERT INTO holdfast.event (job, number, kind, at, data)
SELECT seq, event_count, 'started', :now::bigint, :told::text || attempt || '}' FROM started
