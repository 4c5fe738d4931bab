-- Every worker that has a row, and whether it is alive by the clock that leases count by.
SELECT worker.name, worker.host, worker.pid, worker.by_hand, worker.queues, worker.slots, worker.started_at, worker.beat_at,
       (SELECT count(*) FROM {schema}.running WHERE running.worker = worker.id),
       worker.boot = :boot::text AND worker.beat_tick + worker.lease_min >= :tick::bigint
  FROM {schema}.worker AS worker ORDER BY worker.started_at, worker.id
