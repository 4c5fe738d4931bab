DELETE FROM holdfast_running WHERE seq IN (SELECT value FROM json_each(:seqs))
