UPDATE holdfast_job_state
   SET state = 'ready', attempt = 0, reason = NULL, result = NULL, finished_at = NULL, started_at = NULL, run_after = NULL
 WHERE seq = :seq AND state = :state
