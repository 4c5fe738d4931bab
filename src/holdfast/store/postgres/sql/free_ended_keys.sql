-- A job that holds a key was enqueued with it: so the keys of these jobs are looked up, and those that others hold are left out.
DELETE FROM holdfast.key
 WHERE key = ANY (ARRAY(SELECT body.key FROM holdfast.body AS body
                         WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND body.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND ended IS NULL
