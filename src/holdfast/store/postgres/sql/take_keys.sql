-- keys: [key, seq, id, scope, until, failed, lane]. Which of these jobs hold their key now, because no other did. The rows of the other
-- keys are locked as they are; a transaction that is just writing one is waited for. In the order of keys, against deadlocks.
WITH taken AS (
    INSERT INTO {schema}.key AS known (key, seq, id, scope, until, failed, lane, created_at)
    SELECT given ->> 0, (given ->> 1)::bigint, given ->> 2, given ->> 3, (given ->> 4)::bigint, given ->> 5, (given ->> 6)::integer,
           :now::bigint
      FROM jsonb_array_elements(:keys::jsonb) AS given
     ORDER BY (given ->> 0) COLLATE "C"
        ON CONFLICT (key) DO UPDATE SET seq = known.seq WHERE false
    RETURNING seq
)
SELECT coalesce(json_agg(seq), '[]')::text FROM taken
