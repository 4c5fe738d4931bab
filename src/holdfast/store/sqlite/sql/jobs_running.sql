-- What runs in this queue, the longest first: id, worker, since when.
SELECT spec.id, worker.name, job_state.started_at
  FROM holdfast_running AS running
 CROSS JOIN holdfast_lane AS lane ON lane.lane = running.lane AND lane.queue = :queue
 CROSS JOIN holdfast_job_state AS job_state ON job_state.seq = running.seq
 CROSS JOIN holdfast_job_spec AS spec ON spec.seq = running.seq
 CROSS JOIN holdfast_worker AS worker ON worker.id = running.worker
 ORDER BY job_state.started_at, running.seq LIMIT :limit
