-- A job that holds a key was enqueued with it: so the keys of these jobs are looked up, and those that others hold are left out.
DELETE FROM {schema}.key
 WHERE key = ANY (ARRAY(SELECT spec.key FROM {schema}.job_spec AS spec
                         WHERE spec.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND spec.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND ended IS NULL
