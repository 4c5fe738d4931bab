DELETE FROM holdfast_error WHERE job IN (SELECT value FROM json_each(:seqs))
