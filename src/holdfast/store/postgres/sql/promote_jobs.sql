INSERT INTO holdfast.moved AS moved (seq, lane, state, event_count, run_after)
SELECT seq, lane, 'ready', 2, scheduled_for FROM holdfast.body WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    ON CONFLICT (seq) DO UPDATE SET state = 'ready', event_count = moved.event_count + 1
