-- Whatever it was closed for: the next claim looks again.
UPDATE {schema}.queue
   SET declared = :declared::text, live = :live::text, paused_until = :paused_until::bigint, limited = :limited::integer,
       bounded = :bounded::integer, changed_at = :now::bigint, closed_until = 0
 WHERE name = :queue::text
