-- When the next scheduled job is due, or a queue that was closed for a time, and has a job, may open.
SELECT min(due)
  FROM (SELECT min(run_after) AS due FROM holdfast_scheduled
        UNION ALL
        SELECT min(closed_until) FROM holdfast_queue AS queue
         WHERE closed_until > :now AND closed_until < 9223372036854775807
           AND EXISTS (SELECT 1 FROM holdfast_ready AS ready JOIN holdfast_lane AS lane ON lane.lane = ready.lane WHERE lane.queue = queue.name))
