-- Of every queue that has any.
SELECT name, declared, live, memory, paused_until, changed_at FROM {schema}.queue ORDER BY name
