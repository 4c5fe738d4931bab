INSERT INTO holdfast_finished (finished_at, seq, state, lane)
SELECT finished_at, seq, state, lane FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs))
