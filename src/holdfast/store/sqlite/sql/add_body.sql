-- No row comes back if the id is taken.
INSERT INTO holdfast_body (seq, id, arguments, key, tags, meta, parent)
VALUES (:seq, :id, :arguments, :key, :tags, :meta, :parent)
    ON CONFLICT (id) DO NOTHING
RETURNING seq
