-- Keys whose scope is longer than their jobs' lives stay when these are pruned, with the state in which the job ended.
UPDATE holdfast.key AS held
   SET ended = (SELECT state FROM holdfast.moved WHERE moved.seq = held.seq)
 WHERE key = ANY (ARRAY(SELECT body.key FROM holdfast.body AS body
                         WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND body.key IS NOT NULL))
   AND seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND (scope = 'forever' OR (scope = 'seconds' AND until > :now::bigint))
   AND NOT (failed = 'free' AND (SELECT state FROM holdfast.moved WHERE moved.seq = held.seq) = 'failed')
