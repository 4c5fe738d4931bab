DELETE FROM holdfast_body WHERE seq IN (SELECT value FROM json_each(:seqs))
