INSERT INTO holdfast_scheduled (run_after, seq, lane)
SELECT scheduled_for, seq, lane FROM holdfast_job_spec
 WHERE seq IN (SELECT value FROM json_each(:seqs)) AND scheduled_for IS NOT NULL
