INSERT INTO holdfast_scheduled (run_after, seq, lane)
SELECT run_after, seq, lane FROM holdfast_moved WHERE seq IN (SELECT value FROM json_each(:seqs))
