-- Workers that stopped long ago and hold nothing any more.
DELETE FROM {schema}.worker
 WHERE id IN (SELECT id FROM {schema}.worker AS worker
               WHERE (boot <> :boot::text OR beat_tick + lease_min < :tick::bigint)
                 AND beat_at < :before::bigint
                 AND NOT EXISTS (SELECT 1 FROM {schema}.running WHERE running.worker = worker.id)
                 FOR UPDATE SKIP LOCKED)
