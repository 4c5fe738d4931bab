SELECT worker.id, worker.name, worker.host, worker.pid, worker.by_hand, worker.started_at, worker.beat_at,
       (SELECT count(*) FROM {schema}.running WHERE running.worker = worker.id)
  FROM {schema}.worker AS worker ORDER BY worker.id
