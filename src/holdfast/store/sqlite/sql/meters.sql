-- Days are text that sorts as they do. A queue, a task or a name that is null is any.
SELECT meter.day, lane.queue, lane.task, meter.name, meter.amount
  FROM holdfast_meter AS meter
  JOIN holdfast_lane AS lane ON lane.lane = meter.lane
 WHERE meter.day BETWEEN :since AND :until AND (:queue IS NULL OR lane.queue = :queue) AND (:task IS NULL OR lane.task = :task)
   AND (:name IS NULL OR meter.name = :name)
 ORDER BY meter.day, lane.queue, lane.task, meter.name
