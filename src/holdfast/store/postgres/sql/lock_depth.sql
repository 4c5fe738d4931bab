-- The most that may wait in this queue, by what was counted last, and what came back since. Locked: one enqueue after the other.
SELECT depth.jobs, (SELECT coalesce(sum(jobs), 0) FROM {schema}.returned WHERE queue = :queue::text)::bigint
  FROM {schema}.depth AS depth WHERE depth.queue = :queue::text FOR UPDATE
