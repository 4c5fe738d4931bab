-- What runs in this queue, the longest first: id, worker, since when.
SELECT spec.id, worker.name, job_state.started_at
  FROM {schema}.running AS running
 CROSS JOIN LATERAL (SELECT queue FROM {schema}.lane WHERE lane.lane = running.lane OFFSET 0) AS lane
 CROSS JOIN LATERAL (SELECT started_at FROM {schema}.job_state WHERE job_state.seq = running.seq OFFSET 0) AS job_state
 CROSS JOIN LATERAL (SELECT id FROM {schema}.job_spec WHERE job_spec.seq = running.seq OFFSET 0) AS spec
 CROSS JOIN LATERAL (SELECT name FROM {schema}.worker WHERE worker.id = running.worker OFFSET 0) AS worker
 WHERE lane.queue = :queue::text
 ORDER BY job_state.started_at, running.seq LIMIT :limit::bigint
