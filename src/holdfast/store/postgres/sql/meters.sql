-- Days are text that sorts as they do. A queue, a task or a name that is null is any.
SELECT meter.day, lane.queue, lane.task, meter.name, meter.amount
  FROM {schema}.meter AS meter
 CROSS JOIN LATERAL (SELECT queue, task FROM {schema}.lane WHERE lane.lane = meter.lane OFFSET 0) AS lane
 WHERE meter.day BETWEEN :since::text AND :until::text AND (:queue::text IS NULL OR lane.queue = :queue::text)
   AND (:task::text IS NULL OR lane.task = :task::text) AND (:name::text IS NULL OR meter.name = :name::text)
 ORDER BY meter.day COLLATE "C", lane.queue COLLATE "C", lane.task COLLATE "C", meter.name COLLATE "C"
