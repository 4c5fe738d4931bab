-- Runs of these queues that ended since a claim last looked, and the event that each ended with; none if the job is gone. Then, without
-- an id: how many run in each queue. One statement: whatever has ended is in one of the two, and in no more.
SELECT mark.id, mark.queue, mark.seq, event.kind, event.at, event.data
  FROM {schema}.mark AS mark
  LEFT JOIN LATERAL (SELECT own.kind, own.at, own.data FROM {schema}.event AS own
                      WHERE own.job = mark.seq
                        AND own.kind IN ('succeeded', 'failed', 'backed_off', 'expired', 'snoozed', 'released', 'suspended', 'cancelled', 'skipped')
                      ORDER BY own.job DESC, own.number DESC LIMIT 1) AS event ON true
 WHERE mark.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::json)))
UNION ALL
SELECT NULL, lane.queue, count(*), NULL, NULL, NULL
  FROM {schema}.running AS running
 CROSS JOIN LATERAL (SELECT queue FROM {schema}.lane WHERE lane.lane = running.lane OFFSET 0) AS lane
 WHERE running.limited = 1 AND lane.queue = ANY (ARRAY(SELECT json_array_elements_text(:queues::json)))
 GROUP BY lane.queue
