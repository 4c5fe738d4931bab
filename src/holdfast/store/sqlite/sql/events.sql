SELECT number, kind, at, data FROM holdfast_event WHERE job = :seq AND number > :after ORDER BY number LIMIT :limit
