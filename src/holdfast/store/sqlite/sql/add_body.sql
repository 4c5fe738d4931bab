-- No row comes back if the id is taken.
INSERT INTO holdfast_body (
    seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
VALUES (:seq, :id, :lane, :priority, :attempts_max, :now, :run_after, :arguments, :key, :tags, :meta, :parent, :callback)
    ON CONFLICT (id) DO NOTHING
RETURNING seq
