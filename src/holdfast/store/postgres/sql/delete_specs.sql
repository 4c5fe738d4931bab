DELETE FROM {schema}.job_spec WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
