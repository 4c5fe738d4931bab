DELETE FROM holdfast_finished
 WHERE (finished_at, seq) IN (SELECT finished_at, seq FROM holdfast_moved WHERE seq IN (SELECT value FROM json_each(:seqs)))
