-- Another transaction may be adding the same lane: then this one waits for it, and gets that lane.
INSERT INTO {schema}.lane (queue, task) VALUES (:queue::text, :task::text)
    ON CONFLICT (queue, task) DO UPDATE SET queue = excluded.queue
RETURNING lane
