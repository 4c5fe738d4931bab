-- How many jobs of each of these queues run. Only those of limited lanes are counted: their queues are the ones that are asked for.
SELECT lane.queue, count(*)
  FROM {schema}.running AS running
 CROSS JOIN LATERAL (SELECT queue FROM {schema}.lane WHERE lane.lane = running.lane OFFSET 0) AS lane
 WHERE running.limited = 1 AND lane.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::json)))
 GROUP BY lane.queue
