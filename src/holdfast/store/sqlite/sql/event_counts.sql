-- What came between two places (newest job:newest event), added up: [lane, kind, how many, microseconds]. Starts come one by one,
-- with how long the job had been ready, and so do ends of runs, with how long its code had run; the rest has no time.
WITH fresh AS MATERIALIZED (
    SELECT event.job, event.number, event.kind, event.at, spec.lane, spec.created_at, job_state.started_at, job_state.finished_at,
           CASE WHEN event.kind IN ('failed', 'backed_off', 'snoozed') THEN json_extract(event.data, '$.run_seconds') END AS run_seconds
      FROM holdfast_event AS event
     CROSS JOIN holdfast_job_spec AS spec ON spec.seq = event.job
     CROSS JOIN holdfast_job_state AS job_state ON job_state.seq = event.job
     WHERE event.position > CAST(substr(:since, instr(:since, ':') + 1) AS INTEGER)
       AND event.position <= CAST(substr(:upto, instr(:upto, ':') + 1) AS INTEGER)
)
SELECT json_group_array(json_array(lane, kind, number, micros))
  FROM (SELECT spec.lane, CASE WHEN spec.scheduled_for IS NULL THEN 'enqueued' ELSE 'scheduled' END AS kind,
               count(*) AS number, NULL AS micros
          FROM holdfast_job_spec AS spec
         WHERE spec.seq > CAST(:since AS INTEGER) AND spec.seq <= CAST(:upto AS INTEGER)
         GROUP BY 1, 2
        UNION ALL
        SELECT lane, kind, count(*), NULL
          FROM fresh
         WHERE kind NOT IN ('started', 'succeeded', 'failed', 'backed_off', 'snoozed')
         GROUP BY lane, kind
        UNION ALL
        SELECT fresh.lane, fresh.kind, 1, max(fresh.at - coalesce(before.at, fresh.created_at), 0)
          FROM fresh
          LEFT JOIN holdfast_event AS before ON before.job = fresh.job AND before.number = fresh.number - 1
         WHERE fresh.kind = 'started'
        UNION ALL
        SELECT lane, kind, 1, finished_at - started_at FROM fresh WHERE kind = 'succeeded'
        UNION ALL
        SELECT lane, kind, 1, coalesce(CAST(round(run_seconds * 1e6) AS INTEGER),
                                       at - (SELECT start.at FROM holdfast_event AS start -- its worker did not measure it
                                              WHERE start.job = fresh.job AND start.number < fresh.number
                                                AND start.kind = 'started'
                                              ORDER BY start.number DESC LIMIT 1))
          FROM fresh
         WHERE kind IN ('failed', 'backed_off', 'snoozed'))
