DELETE FROM {schema}.event WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
