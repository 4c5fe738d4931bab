INSERT INTO holdfast_job_state (seq, lane, state, attempt, token, event_count, started_at)
SELECT seq, lane, 'running', 1, 1, 2, :now FROM holdfast_job_spec WHERE seq IN (SELECT value FROM json_each(:seqs))
    ON CONFLICT (seq) DO UPDATE
   SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = :now
