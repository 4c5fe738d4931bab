-- cursor: [lane, priority, seq] of where a worker stands; those of its lanes that have something behind that. If none has, or
-- it stands nowhere, from filled lane to filled lane: empty ones, of whom there may be very many, cost nothing.
WITH RECURSIVE behind AS MATERIALIZED (
    SELECT (place.value ->> 0)::integer AS lane
      FROM jsonb_array_elements(:cursor::jsonb) AS place (value)
     CROSS JOIN LATERAL (
           SELECT 1 FROM {schema}.ready
            WHERE ready.lane = (place.value ->> 0)::integer
              AND (ready.priority, ready.seq) > ((place.value ->> 1)::integer, (place.value ->> 2)::bigint)
            ORDER BY ready.lane, ready.priority, ready.seq LIMIT 1) AS first
),
filled (lane) AS (
    SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM behind) THEN (SELECT min(lane) FROM {schema}.ready) END
    UNION ALL
    SELECT (SELECT min(ready.lane) FROM {schema}.ready WHERE ready.lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
),
found AS (SELECT lane FROM behind UNION ALL SELECT lane FROM filled)
SELECT lane.lane, lane.queue, lane.task, lane.limited
  FROM found
  JOIN {schema}.lane AS lane ON lane.lane = found.lane
 WHERE (:queues::json IS NULL OR lane.queue IN (SELECT json_array_elements_text(:queues::json)))
   AND (:tasks::json IS NULL OR lane.task IN (SELECT json_array_elements_text(:tasks::json)))
   AND (:queues::json IS NOT NULL OR :tasks::json IS NOT NULL OR lane.queue <> 'holdfast.callbacks') -- ours, unless asked for
   AND NOT (lane.limited = 1
            AND EXISTS (SELECT 1 FROM {schema}.queue AS queue WHERE queue.name = lane.queue AND queue.closed_until > :now::bigint AND queue.kept_at <= :now::bigint)
            AND NOT EXISTS (SELECT 1 FROM {schema}.mark AS mark WHERE mark.queue = lane.queue)) -- closed, and nothing has ended
