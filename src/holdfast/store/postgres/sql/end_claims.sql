DELETE FROM {schema}.running WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
