INSERT INTO holdfast_body (seq, id, arguments, key, tags, meta, parent)
VALUES (:seq, :id, :arguments, :key, :tags, :meta, :parent)
