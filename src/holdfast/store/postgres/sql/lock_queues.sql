-- Those of the queues that have limits, locked, for a claim that is about to choose from them. A queue that another claim has locked
-- is left out: the clerk waits for nobody.
SELECT name, declared, live, memory, paused_until, changed_at FROM {schema}.queue
 WHERE name = ANY (ARRAY(SELECT json_array_elements_text(:queues::json))) ORDER BY name FOR UPDATE SKIP LOCKED
