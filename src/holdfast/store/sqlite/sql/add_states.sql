-- A job that stands as it was enqueued is about to move.
INSERT INTO holdfast_job_state (seq, lane, state, event_count, run_after)
SELECT seq, lane, state, event_count, run_after FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(:seqs))
