-- How many ready jobs of this queue come before one place in its order; no more than :limit are counted.
SELECT count(*)
  FROM (SELECT 1
          FROM holdfast_lane AS lane
         CROSS JOIN holdfast_ready AS ready ON ready.lane = lane.lane AND (ready.priority, ready.seq) < (:priority, :seq)
         WHERE lane.queue = :queue LIMIT :limit)
