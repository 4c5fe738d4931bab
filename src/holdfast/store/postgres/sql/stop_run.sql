-- So that its end leaves a mark.
UPDATE {schema}.running SET limited = 1 WHERE seq = :seq::bigint AND limited = 0
