-- Without those whose row is locked by their worker or by a cancel. (OFFSET 0: each by its key, whatever the planner
-- thinks of the tables.)
SELECT running.seq, running.token, running.lane, worker.name, worker.host, worker.pid, worker.beat_at,
       job_state.attempt, spec.attempts_max, spec.callback, spec.id
  FROM {schema}.running AS running
 CROSS JOIN LATERAL (SELECT name, host, pid, beat_at FROM {schema}.worker AS worker
                      WHERE worker.id = running.worker
                        AND (worker.boot <> :boot::text OR worker.beat_tick + running.lease < :tick::bigint) OFFSET 0) AS worker
 CROSS JOIN LATERAL (SELECT attempt FROM {schema}.job_state WHERE job_state.seq = running.seq OFFSET 0) AS job_state
 CROSS JOIN LATERAL (SELECT attempts_max, callback, id FROM {schema}.job_spec WHERE job_spec.seq = running.seq OFFSET 0) AS spec
 LIMIT :limit::bigint
   FOR UPDATE OF running SKIP LOCKED
