-- Whether claims, and enqueues, must look at the queue.
UPDATE {schema}.lane SET limited = :limited::integer, bounded = :bounded::integer WHERE queue = :queue::text
