-- A job that stands as it was enqueued is about to move.
INSERT INTO holdfast.moved (seq, lane, state, event_count, run_after)
SELECT seq, lane, state, event_count, run_after FROM holdfast.job WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
