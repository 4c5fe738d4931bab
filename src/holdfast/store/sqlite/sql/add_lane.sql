-- As limited and as bounded as its queue is.
INSERT INTO holdfast_lane (queue, task, limited, bounded)
VALUES (:queue, :task, coalesce((SELECT limited FROM holdfast_queue WHERE name = :queue), 0),
        coalesce((SELECT bounded FROM holdfast_queue WHERE name = :queue), 0))
RETURNING lane, bounded
