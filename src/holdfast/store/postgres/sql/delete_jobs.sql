DELETE FROM holdfast.job WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
