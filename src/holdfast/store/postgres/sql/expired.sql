-- But for those whose holder, or somebody who cancels, is writing at this moment. (OFFSET 0: each by its key, whatever the planner
-- thinks of the tables.)
SELECT running.seq, running.token, running.lane, running.worker, worker.name, worker.host, worker.pid, worker.beat_at,
       moved.attempt, body.attempts_max, body.callback, body.id
  FROM holdfast.running AS running
 CROSS JOIN LATERAL (SELECT name, host, pid, beat_at FROM holdfast.worker AS worker
                      WHERE worker.id = running.worker
                        AND (worker.boot <> :boot::text OR worker.beat_tick + running.lease < :tick::bigint) OFFSET 0) AS worker
 CROSS JOIN LATERAL (SELECT attempt FROM holdfast.moved WHERE moved.seq = running.seq OFFSET 0) AS moved
 CROSS JOIN LATERAL (SELECT attempts_max, callback, id FROM holdfast.body WHERE body.seq = running.seq OFFSET 0) AS body
 LIMIT :limit::bigint
   FOR UPDATE OF running SKIP LOCKED
