-- As free_ended_keys, and those that outlived their jobs, too.
DELETE FROM holdfast.key
 WHERE key = ANY (ARRAY(SELECT body.key FROM holdfast.body AS body
                         WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND body.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
