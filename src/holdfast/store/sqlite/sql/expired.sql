SELECT running.seq, running.token, running.lane, running.worker, worker.name, worker.host, worker.pid, worker.beat_at,
       moved.attempt, body.attempts_max, body.callback, body.id
  FROM holdfast_worker AS worker
  JOIN holdfast_running AS running ON running.worker = worker.id
  JOIN holdfast_moved AS moved ON moved.seq = running.seq
  JOIN holdfast_body AS body ON body.seq = running.seq
 WHERE worker.boot <> :boot OR worker.beat_tick + running.lease < :tick
 LIMIT :limit
