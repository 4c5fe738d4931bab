INSERT INTO holdfast_ready (lane, priority, seq)
SELECT lane, priority, seq FROM holdfast_job_spec
 WHERE seq IN (SELECT value FROM json_each(:seqs)) AND scheduled_for IS NULL
