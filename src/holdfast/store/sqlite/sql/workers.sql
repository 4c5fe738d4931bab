SELECT worker.id, worker.name, worker.host, worker.pid, worker.by_hand, worker.started_at, worker.beat_at,
       (SELECT count(*) FROM holdfast_running WHERE holdfast_running.worker = worker.id)
  FROM holdfast_worker AS worker ORDER BY worker.id
