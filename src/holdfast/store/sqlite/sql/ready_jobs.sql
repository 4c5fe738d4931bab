INSERT INTO holdfast_ready (lane, priority, seq)
SELECT lane, priority, seq FROM holdfast_body WHERE seq IN (SELECT value FROM json_each(:seqs))
