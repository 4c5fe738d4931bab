SELECT running.seq, running.token, running.lane, worker.name, worker.host, worker.pid, worker.beat_at,
       job_state.attempt, spec.attempts_max, spec.callback, spec.id
  FROM holdfast_worker AS worker
  JOIN holdfast_running AS running ON running.worker = worker.id
  JOIN holdfast_job_state AS job_state ON job_state.seq = running.seq
  JOIN holdfast_job_spec AS spec ON spec.seq = running.seq
 WHERE worker.boot <> :boot OR worker.beat_tick + running.lease < :tick
 LIMIT :limit
