INSERT INTO {schema}.finished (finished_at, seq, state, lane)
SELECT finished_at, seq, state, lane FROM {schema}.job_state WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
