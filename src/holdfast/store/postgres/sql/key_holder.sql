SELECT held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue, job.state
  FROM holdfast.key AS held
  JOIN holdfast.lane AS lane ON lane.lane = held.lane
  LEFT JOIN LATERAL (SELECT state FROM holdfast.job WHERE job.seq = held.seq OFFSET 0) AS job ON true
 WHERE held.key = :key::text
