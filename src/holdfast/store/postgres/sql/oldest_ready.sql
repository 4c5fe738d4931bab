-- The first in line of every lane that has anything ready and whose queue lets jobs start, and since when it is: from filled lane to filled lane, whatever the
-- backlog. What made a job ready is its last event; the first of all is not written down.
WITH RECURSIVE filled (lane) AS (
    SELECT min(lane) FROM {schema}.ready
    UNION ALL
    SELECT (SELECT min(ready.lane) FROM {schema}.ready WHERE ready.lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
)
SELECT lane.queue, lane.task, job.id, coalesce(event.at, job.created_at)
  FROM filled
  JOIN {schema}.lane AS lane ON lane.lane = filled.lane
 CROSS JOIN LATERAL (
       SELECT ready.seq FROM {schema}.ready
        WHERE ready.lane = filled.lane ORDER BY ready.lane, ready.priority, ready.seq LIMIT 1) AS first
 CROSS JOIN LATERAL (SELECT id, created_at, event_count FROM {schema}.job WHERE job.seq = first.seq OFFSET 0) AS job
  LEFT JOIN LATERAL (SELECT at FROM {schema}.event WHERE event.job = first.seq AND event.number = job.event_count OFFSET 0)
       AS event ON true
 WHERE NOT (lane.limited = 1
            AND EXISTS (SELECT 1 FROM {schema}.queue AS queue
                         WHERE queue.name = lane.queue AND queue.closed_until > :now::bigint AND queue.kept_at <= :now::bigint))
