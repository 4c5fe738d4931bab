-- The living workers, by the clock that leases count by: which queues each serves, how many jobs at a time, and how many it has.
SELECT worker.name, worker.by_hand, worker.queues, worker.slots, coalesce(held.jobs, 0)
  FROM holdfast_worker AS worker
  LEFT JOIN (SELECT worker, count(*) AS jobs FROM holdfast_running GROUP BY worker) AS held ON held.worker = worker.id
 WHERE NOT CASE WHEN worker.boot = :boot AND worker.beat_tick <= :tick THEN worker.beat_tick + worker.lease_min < :tick
                ELSE worker.beat_at NOT BETWEEN max(:booted + 1, :now - worker.lease_min) AND :now END
 ORDER BY worker.id
