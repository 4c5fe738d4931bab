-- pairs: [queue, task]. The lanes that exist; a pair that has none is left out.
SELECT lane.lane, lane.queue, lane.task, lane.bounded
  FROM jsonb_array_elements(:pairs::jsonb) AS pair
 CROSS JOIN LATERAL (SELECT * FROM {schema}.lane WHERE lane.queue = pair ->> 0 AND lane.task = pair ->> 1 OFFSET 0) AS lane
