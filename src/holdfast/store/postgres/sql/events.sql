-- All but the first, which is the job itself (log_of).
SELECT number, kind, at, data FROM {schema}.event
 WHERE job = :seq::bigint AND number > :after::bigint ORDER BY number LIMIT :limit::bigint
