-- How many ready jobs of this queue come before one place in its order; no more than :limit are counted.
SELECT count(*)
  FROM (SELECT 1
          FROM {schema}.lane AS lane
         CROSS JOIN LATERAL (SELECT 1 FROM {schema}.ready
                              WHERE ready.lane = lane.lane AND (ready.priority, ready.seq) < (:priority::integer, :seq::bigint)
                              ORDER BY ready.lane, ready.priority, ready.seq LIMIT :limit::bigint) AS ahead
         WHERE lane.queue = :queue::text LIMIT :limit::bigint) AS counted
