-- Runs of these queues that ended since a claim last looked, and the event that each ended with; none if the job is gone. Then, without
-- an id: how many run in each queue. One statement: whatever has ended is in one of the two, and in no more.
SELECT mark.id, mark.queue, mark.seq, event.kind, event.at, event.data
  FROM holdfast_mark AS mark
  LEFT JOIN holdfast_event AS event
         ON event.job = mark.seq
        AND event.number = (SELECT max(number) FROM holdfast_event AS own
                             WHERE own.job = mark.seq AND own.kind IN ('succeeded', 'failed', 'backed_off', 'expired', 'snoozed', 'released', 'suspended', 'cancelled', 'skipped'))
 WHERE mark.queue IN (SELECT value FROM json_each(:queues))
UNION ALL
SELECT NULL, lane.queue, count(*), NULL, NULL, NULL
  FROM holdfast_running AS running
 CROSS JOIN holdfast_lane AS lane ON lane.lane = running.lane
 WHERE running.limited = 1 AND lane.queue IN (SELECT value FROM json_each(:queues))
 GROUP BY lane.queue
