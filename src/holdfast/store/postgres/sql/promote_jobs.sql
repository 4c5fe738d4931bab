INSERT INTO {schema}.job_state AS job_state (seq, lane, state, event_count, run_after)
SELECT seq, lane, 'ready', 2, scheduled_for FROM {schema}.job_spec WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    ON CONFLICT (seq) DO UPDATE SET state = 'ready', event_count = job_state.event_count + 1
