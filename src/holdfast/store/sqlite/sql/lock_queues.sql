-- Those of the queues that have limits, for a claim that is about to choose from them.
SELECT name, declared, live, memory, paused_until, changed_at FROM holdfast_queue
 WHERE name IN (SELECT value FROM json_each(:queues)) ORDER BY name
