-- Whatever it was closed for: the next claim looks again.
UPDATE holdfast_queue
   SET declared = :declared, live = :live, paused_until = :paused_until, limited = :limited, bounded = :bounded, changed_at = :now,
       closed_until = 0
 WHERE name = :queue
