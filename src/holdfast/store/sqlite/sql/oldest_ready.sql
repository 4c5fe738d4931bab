-- The first in line of every lane that has anything ready and whose queue lets jobs start, and since when it is: from filled lane to filled lane, whatever the
-- backlog. What made a job ready is its last event; the first of all is not written down.
WITH RECURSIVE filled (lane) AS (
    SELECT min(lane) FROM holdfast_ready
    UNION ALL
    SELECT (SELECT min(lane) FROM holdfast_ready WHERE lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
)
SELECT lane.queue, lane.task, spec.id, coalesce(event.at, spec.created_at)
  FROM filled
 CROSS JOIN holdfast_lane AS lane ON lane.lane = filled.lane
 CROSS JOIN holdfast_job_spec AS spec
         ON spec.seq = (SELECT seq FROM holdfast_ready AS ready WHERE ready.lane = filled.lane ORDER BY priority, seq LIMIT 1)
  LEFT JOIN holdfast_job_state AS job_state ON job_state.seq = spec.seq
  LEFT JOIN holdfast_event AS event ON event.job = job_state.seq AND event.number = job_state.event_count
 WHERE NOT (lane.limited = 1
            AND EXISTS (SELECT 1 FROM holdfast_queue AS queue
                         WHERE queue.name = lane.queue AND queue.closed_until > :now AND queue.kept_at <= :now))
