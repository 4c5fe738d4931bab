-- Of every queue that has any.
SELECT name, declared, live, memory, paused_until, changed_at FROM holdfast_queue ORDER BY name
