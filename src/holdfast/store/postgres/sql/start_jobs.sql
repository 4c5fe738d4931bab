-- The job's row, its lease and its event at once: each by itself would look up the row again. `leases` is {lane: microseconds},
-- :told is JSON without its end, {"worker":"…","attempt": — which is cheaper than building an object for every row.
WITH started AS (
    UPDATE holdfast.job
       SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = :now::bigint
     WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    RETURNING seq, lane, attempt, token, event_count
),
leased AS (
    INSERT INTO holdfast.running (seq, token, worker, lease, lane)
    SELECT seq, token, :worker::bigint, coalesce((:leases::jsonb ->> lane::text)::bigint, :lease::bigint), lane FROM started
)
INSERT INTO holdfast.event (job, number, kind, at, data)
SELECT seq, event_count, 'started', :now::bigint, :told::text || attempt || '}' FROM started
