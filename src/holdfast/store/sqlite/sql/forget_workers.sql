-- Workers that stopped long ago and hold nothing any more.
DELETE FROM holdfast_worker
 WHERE (boot <> :boot OR beat_tick + lease_min < :tick)
   AND beat_at < :before
   AND NOT EXISTS (SELECT 1 FROM holdfast_running WHERE worker = holdfast_worker.id)
