DELETE FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(:seqs))
