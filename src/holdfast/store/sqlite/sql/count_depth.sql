-- How many jobs wait in this queue; no more than :limit are counted.
SELECT count(*)
  FROM (SELECT 1 FROM holdfast_lane AS lane CROSS JOIN holdfast_ready AS ready ON ready.lane = lane.lane WHERE lane.queue = :queue
        UNION ALL
        SELECT 1 FROM holdfast_scheduled AS scheduled CROSS JOIN holdfast_lane AS lane ON lane.lane = scheduled.lane
         WHERE lane.queue = :queue
        LIMIT :limit)
