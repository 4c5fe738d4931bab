DELETE FROM holdfast.scheduled AS scheduled
 USING holdfast.job AS job
 WHERE job.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND scheduled.run_after = job.run_after AND scheduled.seq = job.seq
