-- Many rows. What changes about these jobs follows by span (add_jobs).
INSERT INTO holdfast_body (seq, id, arguments, key, tags, meta, parent)
VALUES (:seq, :id, :arguments, :key, :tags, :meta, :parent)
