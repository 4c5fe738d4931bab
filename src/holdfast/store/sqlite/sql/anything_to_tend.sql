SELECT EXISTS (SELECT 1 FROM holdfast_scheduled WHERE run_after <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_notice WHERE worker = :worker)
    OR EXISTS (SELECT 1 FROM holdfast_finished WHERE finished_at < :horizon)
    OR EXISTS (SELECT 1 FROM holdfast_worker AS worker
                WHERE (worker.boot <> :boot OR worker.beat_tick + worker.lease_min < :tick)
                  AND EXISTS (SELECT 1 FROM holdfast_running WHERE holdfast_running.worker = worker.id))
