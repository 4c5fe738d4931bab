-- Runs of these queues that ended since a claim last looked, and the event that each ended with; none if the job is gone.
SELECT mark.id, mark.queue, mark.seq, event.kind, event.at, event.data
  FROM holdfast_mark AS mark
  LEFT JOIN holdfast_event AS event
         ON event.job = mark.seq
        AND event.number = (SELECT max(number) FROM holdfast_event AS own
                             WHERE own.job = mark.seq AND own.kind IN ('succeeded', 'failed', 'backed_off', 'expired', 'snoozed', 'released', 'suspended', 'cancelled', 'skipped'))
 WHERE mark.queue IN (SELECT value FROM json_each(:queues))
