-- All but the first, which is the job itself (log_of).
SELECT number, kind, at, data FROM holdfast_event WHERE job = :seq AND number > :after ORDER BY number LIMIT :limit
