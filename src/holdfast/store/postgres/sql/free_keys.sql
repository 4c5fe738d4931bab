-- As free_ended_keys, and those that outlived their jobs, too.
DELETE FROM {schema}.key
 WHERE key = ANY (ARRAY(SELECT spec.key FROM {schema}.job_spec AS spec
                         WHERE spec.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND spec.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
