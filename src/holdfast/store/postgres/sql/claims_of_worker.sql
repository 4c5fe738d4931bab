-- What a worker holds, as the database sees it.
SELECT running.seq, running.token, running.lane, job.attempt, job.attempts_max
  FROM {schema}.running AS running
  JOIN {schema}.job AS job ON job.seq = running.seq
 WHERE running.worker = :worker
