SELECT running.seq, running.token, running.lane, running.worker, worker.name, worker.host, worker.pid, worker.beat_at,
       job.attempt, job.attempts_max, body.callback, body.id
  FROM holdfast_worker AS worker
  JOIN holdfast_running AS running ON running.worker = worker.id
  JOIN holdfast_job AS job ON job.seq = running.seq
  JOIN holdfast_body AS body ON body.seq = running.seq
 WHERE worker.boot <> :boot OR worker.beat_tick + running.lease < :tick
 LIMIT :limit
