DELETE FROM holdfast.key AS held
 USING holdfast.body AS body
 WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND held.key = body.key AND held.seq = body.seq
