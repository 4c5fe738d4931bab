DELETE FROM holdfast_finished
 WHERE (finished_at, seq) IN (SELECT finished_at, seq FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs)))
