-- From filled lane to filled lane: lanes that are empty now, of whom there may be very many, cost nothing.
WITH RECURSIVE filled (lane) AS (
    SELECT min(lane) FROM holdfast_ready
    UNION ALL
    SELECT (SELECT min(lane) FROM holdfast_ready WHERE lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
)
SELECT lane.lane, lane.queue, lane.task
  FROM filled
  JOIN holdfast_lane AS lane ON lane.lane = filled.lane
 WHERE (:queues IS NULL OR lane.queue IN (SELECT value FROM json_each(:queues)))
   AND (:tasks IS NULL OR lane.task IN (SELECT value FROM json_each(:tasks)))
   AND (:queues IS NOT NULL OR :tasks IS NOT NULL OR lane.queue <> 'holdfast.callbacks') -- ours, unless asked for
