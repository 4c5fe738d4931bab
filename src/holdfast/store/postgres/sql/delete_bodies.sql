DELETE FROM holdfast.body WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
