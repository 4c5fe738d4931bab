DELETE FROM {schema}.error WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
