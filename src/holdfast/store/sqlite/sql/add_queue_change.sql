-- Numbered one by one: the queue's row is locked.
INSERT INTO holdfast_queue_change (queue, number, at, actor, action, detail)
VALUES (:queue, 1 + coalesce((SELECT max(number) FROM holdfast_queue_change WHERE queue = :queue), 0), :now, :actor, :action, :detail)
