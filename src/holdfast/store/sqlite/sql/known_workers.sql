-- Every worker that has a row, and whether it is alive by the clock that leases count by.
SELECT worker.name, worker.host, worker.pid, worker.by_hand, worker.queues, worker.slots, worker.started_at, worker.beat_at,
       (SELECT count(*) FROM holdfast_running WHERE holdfast_running.worker = worker.id),
       NOT CASE WHEN worker.boot = :boot AND worker.beat_tick <= :tick THEN worker.beat_tick + worker.lease_min < :tick
                ELSE worker.beat_at NOT BETWEEN max(:booted + 1, :now - worker.lease_min) AND :now END
  FROM holdfast_worker AS worker ORDER BY worker.started_at, worker.id
