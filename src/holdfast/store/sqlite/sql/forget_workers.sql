-- Workers that stopped long ago and hold nothing any more.
DELETE FROM holdfast_worker
 WHERE CASE WHEN boot = :boot AND beat_tick <= :tick THEN beat_tick + lease_min < :tick
            ELSE beat_at NOT BETWEEN max(:booted + 1, :now - lease_min) AND :now END
   AND beat_at < :before
   AND NOT EXISTS (SELECT 1 FROM holdfast_running WHERE worker = holdfast_worker.id)
