-- Takes the jobs that were offered, and still are locked, at these :places; counts the attempt, leases them, records that they have
-- started, and gives them out, in no order: what take_ready, start_jobs, lease_jobs, record_started and claimed do elsewhere, where
-- a look-up costs less than here. A job that never moved has no row in `moved`; nobody else can write one meanwhile, for that takes the
-- job's row of `ready`. `leases` is {lane: microseconds}, :told is JSON without its end, {"worker":"…","attempt": — which is
-- cheaper than building an object for every row. (OFFSET 0: by its number, one by one, whatever the planner thinks of the tables.)
WITH taken AS (
    DELETE FROM holdfast.ready WHERE ctid = ANY ((SELECT translate(:places::text, '[]', '{}'))::tid[]) RETURNING seq, lane
),
started AS (
    INSERT INTO holdfast.moved AS moved (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, lane, 'running', 1, 1, 2, :now::bigint FROM taken
        ON CONFLICT (seq) DO UPDATE
           SET state = 'running', attempt = moved.attempt + 1, token = moved.token + 1, event_count = moved.event_count + 1,
               started_at = excluded.started_at
    RETURNING seq, lane, attempt, token, event_count, run_after, progress, meter, reason
),
leased AS (
    INSERT INTO holdfast.running (seq, token, worker, lease, lane)
    SELECT seq, token, :worker::bigint, coalesce(((SELECT :leases::jsonb) ->> lane::text)::bigint, :lease::bigint), lane FROM started
),
told AS (
    INSERT INTO holdfast.event (job, number, kind, at, data)
    SELECT seq, event_count, 'started', :now::bigint, :told::text || attempt || '}' FROM started
)
SELECT job.seq, job.token, job.lane, body.id, body.arguments, job.attempt, body.attempts_max, body.priority, body.created_at,
       :now::bigint,
       CASE WHEN coalesce(job.run_after::text, job.progress, job.meter, body.key, body.tags, body.meta, body.parent, job.reason,
                          body.callback) IS NOT NULL
            THEN json_build_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent, job.reason,
                                  body.callback)::text
       END
  FROM started AS job
 CROSS JOIN LATERAL (SELECT * FROM holdfast.body WHERE body.seq = job.seq OFFSET 0) AS body
