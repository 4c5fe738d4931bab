-- Not while it holds anything: what it holds expires by this row.
DELETE FROM {schema}.worker
 WHERE id = :worker::bigint AND NOT EXISTS (SELECT 1 FROM {schema}.running WHERE running.worker = :worker::bigint)
