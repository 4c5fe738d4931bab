SELECT declared, live, memory, paused_until, changed_at FROM holdfast_queue WHERE name = :queue
