-- For a change: it waits for claims that are under way.
SELECT declared, live, memory, paused_until, changed_at FROM {schema}.queue WHERE name = :queue::text FOR UPDATE
