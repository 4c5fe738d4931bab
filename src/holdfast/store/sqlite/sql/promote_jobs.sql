INSERT INTO holdfast_job_state (seq, lane, state, event_count, run_after)
SELECT seq, lane, 'ready', 2, scheduled_for FROM holdfast_job_spec WHERE seq IN (SELECT value FROM json_each(:seqs))
    ON CONFLICT (seq) DO UPDATE SET state = 'ready', event_count = event_count + 1
