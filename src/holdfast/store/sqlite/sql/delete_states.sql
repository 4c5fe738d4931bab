DELETE FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs))
