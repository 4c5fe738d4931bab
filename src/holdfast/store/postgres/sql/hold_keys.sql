-- keys: [key, seq, id], in the order of keys. Whatever held a key before does not any more.
INSERT INTO {schema}.key (key, seq, id, scope, until, failed, lane, created_at)
SELECT given ->> 0, (given ->> 1)::bigint, given ->> 2, :scope::text, :until::bigint, :failed::text, :lane::integer, :now::bigint
  FROM jsonb_array_elements(:keys::jsonb) AS given
    ON CONFLICT (key) DO UPDATE
   SET seq = excluded.seq, id = excluded.id, scope = excluded.scope, until = excluded.until, failed = excluded.failed,
       ended = NULL, lane = excluded.lane, created_at = excluded.created_at
