-- No row comes back if the id is taken.
INSERT INTO holdfast_body (seq, id, arguments, key, tags, meta, parent, callback, scheduled_for)
VALUES (:seq, :id, :arguments, :key, :tags, :meta, :parent, :callback, :run_after)
    ON CONFLICT (id) DO NOTHING
RETURNING seq
