SELECT seq, state, token, event_count, priority, run_after, finished_at, lane, key FROM holdfast_job WHERE id = :id
