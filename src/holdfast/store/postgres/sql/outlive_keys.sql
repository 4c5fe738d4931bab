-- Keys whose scope is longer than their jobs' lives stay when these are pruned, with the state in which the job ended.
UPDATE {schema}.key AS held
   SET ended = (SELECT state FROM {schema}.job_state WHERE job_state.seq = held.seq)
 WHERE key = ANY (ARRAY(SELECT spec.key FROM {schema}.job_spec AS spec
                         WHERE spec.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND spec.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND (scope = 'forever' OR (scope = 'seconds' AND until > :now::bigint))
   AND NOT (failed = 'free' AND (SELECT state FROM {schema}.job_state WHERE job_state.seq = held.seq) = 'failed')
