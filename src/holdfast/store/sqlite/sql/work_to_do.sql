-- What an idle worker asks, at once: is there something to claim in its lanes (if it asks), is there something to tend,
-- and when is the next scheduled job due?
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
       ),
       EXISTS (SELECT 1 FROM holdfast_scheduled WHERE run_after <= :now)
           OR EXISTS (SELECT 1 FROM holdfast_notice WHERE worker = :worker)
           OR EXISTS (SELECT 1 FROM holdfast_finished WHERE finished_at < :horizon)
           OR EXISTS (SELECT 1 FROM holdfast_worker AS worker
                       WHERE CASE WHEN worker.boot = :boot AND worker.beat_tick <= :tick THEN worker.beat_tick + worker.lease_min < :tick
                                  ELSE worker.beat_at NOT BETWEEN max(:booted + 1, :now - worker.lease_min) AND :now END
                         AND EXISTS (SELECT 1 FROM holdfast_running WHERE holdfast_running.worker = worker.id)),
       (SELECT min(run_after) FROM holdfast_scheduled)
