DELETE FROM holdfast.error WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
