-- queues: [name, memory, closed_until]. If the clock is set back, `closed_until` means nothing.
UPDATE {schema}.queue
   SET memory = given ->> 1, closed_until = (given ->> 2)::bigint, kept_at = :now::bigint
  FROM jsonb_array_elements(:queues::jsonb) AS given
 WHERE name = given ->> 0
