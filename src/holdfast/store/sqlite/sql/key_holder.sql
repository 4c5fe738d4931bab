SELECT held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue,
       (SELECT job.state FROM holdfast_job AS job WHERE job.seq = held.seq)
  FROM holdfast_key AS held
  JOIN holdfast_lane AS lane ON lane.lane = held.lane
 WHERE held.key = :key
