-- But for those whose holder, or somebody who cancels, is writing at this moment.
SELECT running.seq, running.token, running.lane, running.worker, worker.name, worker.host, worker.pid, worker.beat_at,
       moved.attempt, body.attempts_max, body.callback, body.id
  FROM holdfast.worker AS worker
  JOIN holdfast.running AS running ON running.worker = worker.id
  JOIN holdfast.moved AS moved ON moved.seq = running.seq
  JOIN holdfast.body AS body ON body.seq = running.seq
 WHERE worker.boot <> :boot::text OR worker.beat_tick + running.lease < :tick::bigint
 LIMIT :limit::bigint
   FOR UPDATE OF running SKIP LOCKED
