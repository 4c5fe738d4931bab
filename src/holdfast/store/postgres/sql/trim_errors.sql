-- Of a job that fails endlessly the newest :keep are kept.
DELETE FROM holdfast.error AS error
 WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND token <= (SELECT token FROM holdfast.moved WHERE moved.seq = error.job) - :keep::integer
