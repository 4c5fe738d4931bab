-- Takes the jobs that were offered, and still are locked, at these :places; counts the attempt, leases them, records that they have
-- started, and gives them out, in no order: what take_ready, start_jobs, add_claims, record_started and claimed do on SQLite, where
-- a look-up costs less than here. A job that never moved has no row in `job_state`; no other transaction can write one: that takes the
-- job's row of `ready`. `leases` is {lane: microseconds}, :event_prefix is JSON without its end, {"worker":"…","attempt": — which is
-- cheaper than building an object for every row. (OFFSET 0: by its number, one by one, whatever the planner thinks of the tables.)
WITH alive AS MATERIALIZED (SELECT id FROM {schema}.worker WHERE id = :worker::bigint AND beat_tick >= :since::bigint FOR KEY SHARE),
taken AS (
    DELETE FROM {schema}.ready
     WHERE ctid = ANY (ARRAY(SELECT (offer ->> 3)::tid FROM jsonb_array_elements(:offers::jsonb) AS offer))
       AND EXISTS (SELECT 1 FROM alive)
    RETURNING seq, lane
),
started AS (
    INSERT INTO {schema}.job_state AS job_state (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, lane, 'running', 1, 1, 2, :now::bigint FROM taken
        ON CONFLICT (seq) DO UPDATE
           SET state = 'running', attempt = job_state.attempt + 1, token = job_state.token + 1, event_count = job_state.event_count + 1,
               started_at = excluded.started_at
    RETURNING seq, lane, attempt, token, event_count, run_after, progress, meter, reason
),
leased AS (
    INSERT INTO {schema}.running (seq, token, worker, lease, lane, limited)
    SELECT seq, token, :worker::bigint, coalesce(((SELECT :leases::jsonb) ->> lane::text)::bigint, :lease::bigint), lane,
           CASE WHEN :limited::jsonb IS NULL THEN 0 ELSE ((SELECT :limited::jsonb) @> to_jsonb(lane))::integer END
      FROM started
),
told AS (
    INSERT INTO {schema}.event (job, number, kind, at, data)
    SELECT seq, event_count, 'started', :now::bigint, :event_prefix::text || attempt || '}' FROM started
)
SELECT job.seq, job.token, job.lane, spec.id, spec.arguments, job.attempt, spec.attempts_max, spec.priority, spec.created_at,
       :now::bigint,
       CASE WHEN coalesce(job.run_after::text, job.progress, job.meter, spec.key, spec.tags, spec.meta, spec.parent, job.reason,
                          spec.callback) IS NOT NULL
            THEN json_build_array(job.run_after, job.progress, job.meter, spec.key, spec.tags, spec.meta, spec.parent, job.reason,
                                  spec.callback)::text
       END
  FROM started AS job
 CROSS JOIN LATERAL (SELECT * FROM {schema}.job_spec WHERE job_spec.seq = job.seq OFFSET 0) AS spec
