DELETE FROM holdfast_moved WHERE seq IN (SELECT value FROM json_each(:seqs))
