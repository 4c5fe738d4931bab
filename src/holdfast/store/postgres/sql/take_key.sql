-- A row comes back if nobody had the key. Else that row is locked, as it is; who is just writing it is waited for.
INSERT INTO holdfast.key AS known (key, seq, id, scope, until, failed, lane, created_at)
VALUES (:key::text, :seq::bigint, :id::text, :scope::text, :until::bigint, :failed::text, :lane::integer, :created_at::bigint)
    ON CONFLICT (key) DO UPDATE SET seq = known.seq WHERE false
RETURNING seq
