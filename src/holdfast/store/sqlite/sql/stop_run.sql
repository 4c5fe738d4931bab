-- So that its end leaves a mark.
UPDATE holdfast_running SET limited = 1 WHERE seq = :seq AND limited = 0
