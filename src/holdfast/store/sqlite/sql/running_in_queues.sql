-- How many jobs of each of these queues run. Only those of limited lanes are counted: their queues are the ones that are asked for.
SELECT lane.queue, count(*)
  FROM holdfast_running AS running
 CROSS JOIN holdfast_lane AS lane ON lane.lane = running.lane
 WHERE running.limited = 1 AND lane.queue IN (SELECT value FROM json_each(:queues))
 GROUP BY lane.queue
