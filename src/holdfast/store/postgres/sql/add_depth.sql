-- As many as there could be, so that the first enqueue counts.
INSERT INTO {schema}.depth (queue, jobs) VALUES (:queue::text, :count::bigint) ON CONFLICT (queue) DO NOTHING
