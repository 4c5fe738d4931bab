-- What is left of a job that was pruned while its key lives on, by the job's id: the newest, where ids were given again.
SELECT held.key, held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue,
       held.ended
  FROM holdfast_key AS held
 CROSS JOIN holdfast_lane AS lane ON lane.lane = held.lane
 WHERE held.id = :id AND held.ended IS NOT NULL
 ORDER BY held.seq DESC
 LIMIT 1
