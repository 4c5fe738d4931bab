-- Not while it holds anything: what it holds expires by this row.
DELETE FROM holdfast_worker WHERE id = :worker AND NOT EXISTS (SELECT 1 FROM holdfast_running WHERE worker = :worker)
