INSERT INTO holdfast_scheduled (run_after, seq, lane)
SELECT run_after, seq, lane FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs))
