SELECT seq, state, token, event_count, priority, run_after, finished_at, lane, key, callback
  FROM holdfast.job WHERE seq = (SELECT holdfast.number_of(:id::text))
