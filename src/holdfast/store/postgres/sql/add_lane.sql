-- Somebody else may be adding the same: then we wait for that, and get theirs.
INSERT INTO {schema}.lane (queue, task) VALUES (:queue::text, :task::text)
    ON CONFLICT (queue, task) DO UPDATE SET queue = excluded.queue
RETURNING lane
