DELETE FROM holdfast_error
 WHERE job IN (SELECT value FROM json_each(:seqs))
   AND token <= (SELECT token FROM holdfast_job_state AS job WHERE job.seq = holdfast_error.job) - :keep
