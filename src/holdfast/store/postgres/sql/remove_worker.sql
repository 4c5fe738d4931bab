-- Not while it holds anything: what it holds expires by this row.
DELETE FROM holdfast.worker
 WHERE id = :worker::bigint AND NOT EXISTS (SELECT 1 FROM holdfast.running WHERE running.worker = :worker::bigint)
