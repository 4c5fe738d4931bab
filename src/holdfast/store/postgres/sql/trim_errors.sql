-- Of a job that fails endlessly the newest :keep are kept.
DELETE FROM holdfast.error AS error
 USING holdfast.moved AS job
 WHERE job.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND error.job = job.seq AND error.token <= job.token - :keep::integer
