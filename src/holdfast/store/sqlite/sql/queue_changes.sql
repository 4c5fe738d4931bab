-- The newest first.
SELECT at, actor, action, detail FROM holdfast_queue_change WHERE queue = :queue ORDER BY number DESC LIMIT :limit
