-- Workers that stopped long ago and hold nothing any more.
DELETE FROM holdfast.worker
 WHERE id IN (SELECT id FROM holdfast.worker AS worker
               WHERE (boot <> :boot::text OR beat_tick + lease_min < :tick::bigint)
                 AND beat_at < :before::bigint
                 AND NOT EXISTS (SELECT 1 FROM holdfast.running WHERE running.worker = worker.id)
                 FOR UPDATE SKIP LOCKED)
