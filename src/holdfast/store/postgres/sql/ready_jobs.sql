INSERT INTO {schema}.ready (lane, priority, seq)
SELECT lane, priority, seq FROM {schema}.job_spec WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
