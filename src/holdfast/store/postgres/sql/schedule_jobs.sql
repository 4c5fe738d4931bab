INSERT INTO {schema}.scheduled (run_after, seq, lane)
SELECT run_after, seq, lane FROM {schema}.job_state WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
