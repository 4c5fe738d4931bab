-- As many as there could be, so that the first enqueue counts.
INSERT INTO holdfast_depth (queue, jobs) VALUES (:queue, :count) ON CONFLICT (queue) DO NOTHING
