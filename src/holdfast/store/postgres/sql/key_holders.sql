-- keys: [key]. The job that each was last given to, with its state if the job is still there.
SELECT held.key, held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue,
       job.state
  FROM json_array_elements_text(:keys::json) AS given (key)
 CROSS JOIN LATERAL (SELECT * FROM {schema}.key WHERE key.key = given.key OFFSET 0) AS held
  JOIN {schema}.lane AS lane ON lane.lane = held.lane
  LEFT JOIN LATERAL (SELECT state FROM {schema}.job WHERE job.seq = held.seq OFFSET 0) AS job ON true
