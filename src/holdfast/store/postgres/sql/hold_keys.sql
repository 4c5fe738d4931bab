-- keys: [key, seq, id, scope, until, failed, lane]. Whatever held a key before does not any more.
INSERT INTO {schema}.key (key, seq, id, scope, until, failed, lane, created_at)
SELECT given ->> 0, (given ->> 1)::bigint, given ->> 2, given ->> 3, (given ->> 4)::bigint, given ->> 5, (given ->> 6)::integer,
       :now::bigint
  FROM jsonb_array_elements(:keys::jsonb) AS given
 ORDER BY (given ->> 0) COLLATE "C"
    ON CONFLICT (key) DO UPDATE
   SET seq = excluded.seq, id = excluded.id, scope = excluded.scope, until = excluded.until, failed = excluded.failed,
       ended = NULL, lane = excluded.lane, created_at = excluded.created_at
