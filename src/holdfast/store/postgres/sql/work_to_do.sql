-- What an idle worker asks, at once: is there something to claim in its lanes (if it asks), is there something to tend,
-- and when is the next scheduled job due, or may a closed queue open?
SELECT :claims::integer = 1 AND EXISTS (
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
           SELECT 1
             FROM found
             JOIN {schema}.lane AS lane ON lane.lane = found.lane
            WHERE (:queues::json IS NULL OR lane.queue IN (SELECT json_array_elements_text(:queues::json)))
              AND (:tasks::json IS NULL OR lane.task IN (SELECT json_array_elements_text(:tasks::json)))
              AND NOT (lane.limited = 1
                       AND EXISTS (SELECT 1 FROM {schema}.queue AS queue WHERE queue.name = lane.queue AND queue.closed_until > :now::bigint AND queue.kept_at <= :now::bigint)
                       AND NOT EXISTS (SELECT 1 FROM {schema}.mark AS mark WHERE mark.queue = lane.queue)) -- closed, and nothing has ended
       ),
       EXISTS (SELECT 1 FROM {schema}.scheduled WHERE run_after <= :now::bigint)
           OR EXISTS (SELECT 1 FROM {schema}.notice WHERE worker = :worker::bigint)
           OR EXISTS (SELECT 1 FROM {schema}.finished WHERE finished_at < :horizon::bigint)
           OR EXISTS (SELECT 1 FROM {schema}.worker AS worker
                       WHERE (worker.boot <> :boot::text OR worker.beat_tick + worker.lease_min < :tick::bigint)
                         AND EXISTS (SELECT 1 FROM {schema}.running AS running WHERE running.worker = worker.id)),
       (SELECT min(due)
          FROM (SELECT min(run_after) AS due FROM {schema}.scheduled
                UNION ALL
                SELECT min(closed_until) FROM {schema}.queue AS queue
                 WHERE closed_until > :now::bigint AND closed_until < 9223372036854775807
                   AND EXISTS (SELECT 1 FROM {schema}.ready AS ready JOIN {schema}.lane AS lane ON lane.lane = ready.lane WHERE lane.queue = queue.name)) AS next)
