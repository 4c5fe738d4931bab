-- As limited and as bounded as its queue is. Another transaction may be adding the same lane: then this one waits, and gets that.
INSERT INTO {schema}.lane (queue, task, limited, bounded)
VALUES (:queue::text, :task::text, coalesce((SELECT limited FROM {schema}.queue WHERE name = :queue::text), 0),
        coalesce((SELECT bounded FROM {schema}.queue WHERE name = :queue::text), 0))
    ON CONFLICT (queue, task) DO UPDATE SET queue = excluded.queue
RETURNING lane, bounded
