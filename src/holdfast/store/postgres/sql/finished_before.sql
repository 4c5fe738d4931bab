-- The oldest of them, as many as have :events_max events together, but at least one: a batch must not last for long.
-- Jobs whose key is locked are left for later: the transaction that holds it may be waiting for the job.
WITH old AS MATERIALIZED (
    SELECT seq, finished_at FROM {schema}.finished WHERE finished_at < :before::bigint
     ORDER BY finished_at, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
),
keyed AS MATERIALIZED (
    SELECT old.seq, spec.key
      FROM old
     CROSS JOIN LATERAL (SELECT key FROM {schema}.job_spec WHERE seq = old.seq AND key IS NOT NULL OFFSET 0) AS spec
     CROSS JOIN LATERAL (SELECT FROM {schema}.key AS held WHERE held.key = spec.key AND held.seq = old.seq OFFSET 0) AS held
),
ours AS MATERIALIZED (
    SELECT keyed.seq
      FROM keyed
     CROSS JOIN LATERAL (SELECT FROM {schema}.key AS held
                          WHERE held.key = keyed.key AND held.seq = keyed.seq FOR UPDATE SKIP LOCKED) AS held
),
aged AS (
    SELECT old.seq, row_number() OVER by_age AS place, sum(job.event_count) OVER by_age AS events
      FROM old
     CROSS JOIN LATERAL (SELECT event_count FROM {schema}.job_state WHERE seq = old.seq OFFSET 0) AS job
     WHERE old.seq NOT IN (SELECT seq FROM keyed EXCEPT SELECT seq FROM ours)
    WINDOW by_age AS (ORDER BY old.finished_at, old.seq)
)
SELECT coalesce(json_agg(seq ORDER BY place), '[]')::text FROM aged WHERE place = 1 OR events <= :events_max::bigint
