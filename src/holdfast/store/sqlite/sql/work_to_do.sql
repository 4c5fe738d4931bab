-- What an idle worker asks, at once: is there something to claim in its lanes (if it asks), is there something to tend,
-- and when is the next scheduled job due, or may a closed queue open?
SELECT :claims AND EXISTS (
           WITH RECURSIVE filled (lane) AS (
               SELECT min(lane) FROM holdfast_ready
               UNION ALL
               SELECT (SELECT min(lane) FROM holdfast_ready WHERE lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
           )
           SELECT 1
             FROM filled
             JOIN holdfast_lane AS lane ON lane.lane = filled.lane
            WHERE (:queues IS NULL OR lane.queue IN (SELECT value FROM json_each(:queues)))
              AND (:tasks IS NULL OR lane.task IN (SELECT value FROM json_each(:tasks)))
              AND NOT (lane.limited = 1
                       AND EXISTS (SELECT 1 FROM holdfast_queue AS queue WHERE queue.name = lane.queue AND queue.closed_until > :now AND queue.kept_at <= :now)
                       AND NOT EXISTS (SELECT 1 FROM holdfast_mark AS mark WHERE mark.queue = lane.queue)) -- closed, and nothing has ended
       ),
       EXISTS (SELECT 1 FROM holdfast_scheduled WHERE run_after <= :now)
           OR EXISTS (SELECT 1 FROM holdfast_notice WHERE worker = :worker)
           OR EXISTS (SELECT 1 FROM holdfast_finished WHERE finished_at < :horizon)
           OR EXISTS (SELECT 1 FROM holdfast_worker AS worker
                       WHERE CASE WHEN worker.boot = :boot AND worker.beat_tick <= :tick THEN worker.beat_tick + worker.lease_min < :tick
                                  ELSE worker.beat_at NOT BETWEEN max(:booted + 1, :now - worker.lease_min) AND :now END
                         AND EXISTS (SELECT 1 FROM holdfast_running WHERE holdfast_running.worker = worker.id)),
       (SELECT min(due)
          FROM (SELECT min(run_after) AS due FROM holdfast_scheduled
                UNION ALL
                SELECT min(closed_until) FROM holdfast_queue AS queue
                 WHERE closed_until > :now AND closed_until < 9223372036854775807
                   AND EXISTS (SELECT 1 FROM holdfast_ready AS ready JOIN holdfast_lane AS lane ON lane.lane = ready.lane WHERE lane.queue = queue.name)))
