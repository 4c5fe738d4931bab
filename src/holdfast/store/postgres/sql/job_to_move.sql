SELECT seq, state, token, event_count, priority, run_after, finished_at, lane, key, callback
  FROM {schema}.job WHERE id = :id::text
