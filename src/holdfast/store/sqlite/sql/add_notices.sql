INSERT OR REPLACE INTO holdfast_notice (worker, seq, token, kind)
SELECT worker, seq, token, :kind FROM holdfast_running WHERE seq IN (SELECT value FROM json_each(:seqs))
