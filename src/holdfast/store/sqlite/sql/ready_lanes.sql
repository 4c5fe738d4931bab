-- From filled lane to filled lane: lanes that are empty now, of whom there may be very many, cost nothing.
WITH RECURSIVE filled (lane) AS (
    SELECT min(lane) FROM holdfast_ready
    UNION ALL
    SELECT (SELECT min(lane) FROM holdfast_ready WHERE lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
)
SELECT lane.lane, lane.queue, lane.task, lane.limited
  FROM filled
  JOIN holdfast_lane AS lane ON lane.lane = filled.lane
 WHERE (:queues IS NULL OR lane.queue IN (SELECT value FROM json_each(:queues)))
   AND (:tasks IS NULL OR lane.task IN (SELECT value FROM json_each(:tasks)))
   AND (:queues IS NOT NULL OR :tasks IS NOT NULL OR lane.queue <> 'holdfast.callbacks') -- ours, unless asked for
   AND NOT (lane.limited = 1
            AND EXISTS (SELECT 1 FROM holdfast_queue AS queue WHERE queue.name = lane.queue AND queue.closed_until > :now AND queue.kept_at <= :now)
            AND NOT EXISTS (SELECT 1 FROM holdfast_mark AS mark WHERE mark.queue = lane.queue)) -- closed, and nothing has ended
