INSERT INTO holdfast_moved (seq, lane, state, event_count, run_after)
SELECT seq, lane, 'ready', 2, scheduled_for FROM holdfast_body WHERE seq IN (SELECT value FROM json_each(:seqs))
    ON CONFLICT (seq) DO UPDATE SET state = 'ready', event_count = event_count + 1
