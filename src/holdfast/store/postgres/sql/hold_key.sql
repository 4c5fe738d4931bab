INSERT INTO holdfast.key (key, seq, id, scope, until, failed, lane, created_at)
VALUES (:key::text, :seq::bigint, :id::text, :scope::text, :until::bigint, :failed::text, :lane::integer, :created_at::bigint)
    ON CONFLICT (key) DO UPDATE
   SET seq = excluded.seq, id = excluded.id, scope = excluded.scope, until = excluded.until, failed = excluded.failed,
       ended = NULL, lane = excluded.lane, created_at = excluded.created_at
