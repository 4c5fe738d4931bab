-- keys: [key, seq, id], in the order of keys, against deadlocks. Which of these jobs hold their key now, because no other did; NULL:
-- all of them. The rows of the other keys are locked as they are; a transaction that is just writing one is waited for.
WITH taken AS (
    INSERT INTO {schema}.key AS known (key, seq, id, scope, until, failed, lane, created_at)
    SELECT given ->> 0, (given ->> 1)::bigint, given ->> 2, :scope::text, :until::bigint, :failed::text, :lane::integer,
           :now::bigint
      FROM jsonb_array_elements(:keys::jsonb) AS given
        ON CONFLICT (key) DO UPDATE SET seq = known.seq WHERE false
    RETURNING seq
)
SELECT CASE WHEN count(*) < jsonb_array_length(:keys::jsonb) THEN coalesce(json_agg(seq), '[]')::text END FROM taken
