-- The most that may wait in this queue, by what was counted last, and what came back since.
SELECT depth.jobs, (SELECT coalesce(sum(jobs), 0) FROM holdfast_returned WHERE queue = :queue)
  FROM holdfast_depth AS depth WHERE depth.queue = :queue
