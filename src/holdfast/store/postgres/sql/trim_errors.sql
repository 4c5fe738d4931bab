-- Of a job that fails endlessly the newest :keep are kept.
DELETE FROM {schema}.error AS error
 WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND token <= (SELECT token FROM {schema}.job_state WHERE job_state.seq = error.job) - :keep::integer
