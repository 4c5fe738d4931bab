DELETE FROM holdfast.running WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
