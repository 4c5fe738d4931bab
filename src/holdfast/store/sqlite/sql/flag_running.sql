-- Runs that began before their queue had a limit count, too.
UPDATE holdfast_running SET limited = 1
 WHERE limited = 0 AND lane IN (SELECT lane FROM holdfast_lane WHERE queue = :queue AND limited = 1)
