DELETE FROM holdfast_event WHERE job IN (SELECT value FROM json_each(:seqs))
