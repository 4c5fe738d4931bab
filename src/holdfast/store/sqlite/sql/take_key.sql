-- A row comes back if nobody had the key.
INSERT INTO holdfast_key (key, seq, id, scope, until, failed, lane, created_at)
VALUES (:key, :seq, :id, :scope, :until, :failed, :lane, :created_at)
    ON CONFLICT (key) DO NOTHING
RETURNING seq
