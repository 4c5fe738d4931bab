INSERT INTO holdfast_queue (name, changed_at) VALUES (:queue, :now) ON CONFLICT (name) DO NOTHING
