-- What is left of a job that was pruned while its key lives on, by the job's id: the newest, where ids were given again.
SELECT held.key, held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue,
       held.ended
  FROM (SELECT * FROM {schema}.key WHERE key.id = :id::text AND key.ended IS NOT NULL ORDER BY key.seq DESC LIMIT 1) AS held
 CROSS JOIN LATERAL (SELECT task, queue FROM {schema}.lane WHERE lane.lane = held.lane OFFSET 0) AS lane
