-- What a worker holds, as the database sees it.
SELECT running.seq, running.token, running.lane, job.attempt, job.attempts_max
  FROM holdfast_running AS running
  JOIN holdfast_job AS job ON job.seq = running.seq
 WHERE running.worker = :worker
