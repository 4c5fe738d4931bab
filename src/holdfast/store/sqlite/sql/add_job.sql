-- A job with no key, no tags and no id of its caller's, ready at once: all of its rows.
INSERT INTO holdfast_new_job (id, lane, priority, attempts_max, created_at, arguments, meta, parent)
VALUES (:id, :lane, :priority, :attempts_max, :now, :arguments, :meta, :parent)
