SELECT held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue, job.state
  FROM holdfast.key AS held
  JOIN holdfast.lane AS lane ON lane.lane = held.lane
  LEFT JOIN holdfast.job AS job ON job.seq = held.seq
 WHERE held.key = :key::text
