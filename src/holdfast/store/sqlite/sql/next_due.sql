-- When the next scheduled job is due, or a queue that was closed for a time may open.
SELECT min(due)
  FROM (SELECT min(run_after) AS due FROM holdfast_scheduled
        UNION ALL SELECT min(closed_until) FROM holdfast_queue WHERE closed_until > :now)
