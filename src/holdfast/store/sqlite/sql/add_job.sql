-- A job with no key, no tags and no id of its caller's, ready at once: all of its rows.
INSERT INTO holdfast_new_job (lane, state, priority, attempts_max, created_at, id, arguments, meta, parent)
VALUES (:lane, :state, :priority, :attempts_max, :now, :id, :arguments, :meta, :parent)
