DELETE FROM holdfast_scheduled
 WHERE (run_after, seq) IN (SELECT run_after, seq FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(:seqs)))
