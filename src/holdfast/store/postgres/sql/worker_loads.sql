-- The living workers, by the clock that leases count by: which queues each serves, how many jobs at a time, and how many it has.
SELECT worker.name, worker.by_hand, worker.queues, worker.slots, coalesce(held.jobs, 0)
  FROM {schema}.worker AS worker
  LEFT JOIN (SELECT worker, count(*) AS jobs FROM {schema}.running GROUP BY worker) AS held ON held.worker = worker.id
 WHERE worker.boot = :boot::text AND worker.beat_tick + worker.lease_min >= :tick::bigint
 ORDER BY worker.id
