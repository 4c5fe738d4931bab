DELETE FROM holdfast.moved WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
