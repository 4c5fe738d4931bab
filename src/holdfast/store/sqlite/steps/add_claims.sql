INSERT INTO holdfast_running (seq, token, worker, lease, lane, limited)
SELECT job.seq, job.token, :worker, 
       CASE WHEN :leases IS NULL THEN :lease ELSE coalesce(json_extract(:leases, '$.' || job.lane), :lease) END, job.lane,
       CASE WHEN :limited IS NULL THEN 0 ELSE job.lane IN (SELECT value FROM json_each(:limited)) END
  FROM holdfast_job_state AS job WHERE job.seq IN (SELECT value FROM json_each(:seqs))
