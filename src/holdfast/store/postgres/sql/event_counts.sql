-- What was committed between two snapshots, added up: [lane, kind, how many, microseconds]. Starts come one by one, with how long
-- the job had been ready, and so do ends of runs, with how long its code had run; the rest has no time.
WITH fresh AS MATERIALIZED (
    SELECT event.job, event.number, event.kind, event.at, spec.lane, spec.created_at, job_state.started_at, job_state.finished_at,
           CASE WHEN event.kind IN ('failed', 'backed_off', 'snoozed') THEN (event.data::json ->> 'run_seconds')::double precision END AS run_seconds
      FROM (SELECT job, number, kind, at, data FROM {schema}.event
             WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
            UNION ALL
            SELECT job, number, kind, at, data FROM {schema}.event
             WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(:since::text::pg_snapshot)))
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)) AS event
     CROSS JOIN LATERAL (SELECT lane, created_at FROM {schema}.job_spec WHERE job_spec.seq = event.job OFFSET 0) AS spec
     CROSS JOIN LATERAL (SELECT started_at, finished_at FROM {schema}.job_state WHERE job_state.seq = event.job OFFSET 0) AS job_state
),
made AS (
    SELECT lane, scheduled_for FROM {schema}.job_spec
     WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
       AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
    UNION ALL
    SELECT lane, scheduled_for FROM {schema}.job_spec
     WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(:since::text::pg_snapshot)))
       AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
)
SELECT coalesce(json_agg(json_build_array(lane, kind, number, micros)), '[]')::text
  FROM (SELECT made.lane, CASE WHEN made.scheduled_for IS NULL THEN 'enqueued' ELSE 'scheduled' END AS kind,
               count(*) AS number, NULL::bigint AS micros
          FROM made
         GROUP BY 1, 2
        UNION ALL
        SELECT lane, kind, count(*), NULL
          FROM fresh
         WHERE kind NOT IN ('started', 'succeeded', 'failed', 'backed_off', 'snoozed')
         GROUP BY lane, kind
        UNION ALL
        SELECT fresh.lane, fresh.kind, 1, greatest(fresh.at - coalesce(before.at, fresh.created_at), 0)
          FROM fresh
          LEFT JOIN LATERAL (SELECT at FROM {schema}.event AS last
                              WHERE last.job = fresh.job AND last.number = fresh.number - 1 OFFSET 0) AS before ON true
         WHERE fresh.kind = 'started'
        UNION ALL
        SELECT lane, kind, 1, finished_at - started_at FROM fresh WHERE kind = 'succeeded'
        UNION ALL
        SELECT lane, kind, 1, coalesce(round(run_seconds * 1e6)::bigint,
                                       at - (SELECT start.at FROM {schema}.event AS start -- its worker did not measure it
                                              WHERE start.job = fresh.job AND start.number < fresh.number
                                                AND start.kind = 'started'
                                              ORDER BY start.number DESC LIMIT 1))
          FROM fresh
         WHERE kind IN ('failed', 'backed_off', 'snoozed')) AS summed
