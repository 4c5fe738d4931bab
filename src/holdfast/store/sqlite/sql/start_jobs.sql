UPDATE holdfast_job
   SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = :now
 WHERE seq IN (SELECT value FROM json_each(:seqs))
