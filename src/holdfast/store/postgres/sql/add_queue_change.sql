-- Numbered one by one: the queue's row is locked.
INSERT INTO {schema}.queue_change (queue, number, at, actor, action, detail)
VALUES (:queue::text, 1 + coalesce((SELECT max(number) FROM {schema}.queue_change WHERE queue = :queue::text), 0), :now::bigint,
        :actor::text, :action::text, :detail::text)
