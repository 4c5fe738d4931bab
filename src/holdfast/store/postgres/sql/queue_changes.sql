-- The newest first.
SELECT at, actor, action, detail FROM {schema}.queue_change WHERE queue = :queue::text ORDER BY queue DESC, number DESC LIMIT :limit::bigint
