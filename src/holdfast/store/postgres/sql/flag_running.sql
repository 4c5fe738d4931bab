-- Runs that began before their queue had a limit count, too.
UPDATE {schema}.running SET limited = 1
 WHERE limited = 0 AND lane = ANY (ARRAY(SELECT lane FROM {schema}.lane WHERE queue = :queue::text AND limited = 1))
