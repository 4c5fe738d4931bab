DELETE FROM holdfast.finished AS finished
 USING holdfast.moved AS job
 WHERE job.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND finished.finished_at = job.finished_at AND finished.seq = job.seq
