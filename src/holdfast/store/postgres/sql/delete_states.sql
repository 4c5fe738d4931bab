DELETE FROM {schema}.job_state WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
