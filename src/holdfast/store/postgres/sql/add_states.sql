-- A job that stands as it was enqueued is about to move.
INSERT INTO {schema}.job_state (seq, lane, state, event_count, run_after)
SELECT seq, lane, state, event_count, run_after FROM {schema}.job WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
