DELETE FROM holdfast_job_spec WHERE seq IN (SELECT value FROM json_each(:seqs))
