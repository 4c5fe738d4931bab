-- Runs that began before their queue had a limit count, too. One that another transaction is ending, or has locked, is left out: a
-- claim waits for nobody, and looks again.
UPDATE {schema}.running SET limited = 1
 WHERE seq = ANY (ARRAY(SELECT seq FROM {schema}.running
                         WHERE limited = 0 AND lane = ANY (ARRAY(SELECT lane FROM {schema}.lane WHERE queue = :queue::text AND limited = 1))
                           FOR UPDATE SKIP LOCKED))
