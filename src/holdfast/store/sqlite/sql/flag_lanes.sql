-- Whether claims, and enqueues, must look at the queue.
UPDATE holdfast_lane SET limited = :limited, bounded = :bounded WHERE queue = :queue
