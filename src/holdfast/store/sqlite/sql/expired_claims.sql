-- Claims whose lease has run out. A worker of another boot is dead if its last beat was before this boot (:booted, by the wall clock).
-- If not, it runs on this machine in a sandbox that has another boot id or other ticks: then the wall clock counts, which both have.
SELECT running.seq, running.token, running.lane, worker.name, worker.host, worker.pid, worker.beat_at,
       job_state.attempt, spec.attempts_max, spec.callback, spec.id
  FROM holdfast_worker AS worker
  JOIN holdfast_running AS running ON running.worker = worker.id
  JOIN holdfast_job_state AS job_state ON job_state.seq = running.seq
  JOIN holdfast_job_spec AS spec ON spec.seq = running.seq
 WHERE CASE WHEN worker.boot = :boot AND worker.beat_tick <= :tick THEN worker.beat_tick + running.lease < :tick
            ELSE worker.beat_at NOT BETWEEN max(:booted + 1, :now - running.lease) AND :now END
 LIMIT :limit
