SELECT seq, state, token, event_count, priority, run_after, finished_at, lane, key, callback FROM holdfast_job WHERE id = :id
