-- keys: [key]. The job that each was last given to, with its state if the job is still there.
SELECT held.key, held.seq, held.id, held.scope, held.until, held.failed, held.ended, held.created_at, lane.task, lane.queue,
       (SELECT job.state FROM holdfast_job AS job WHERE job.seq = held.seq)
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_key AS held ON held.key = given.value
 CROSS JOIN holdfast_lane AS lane ON lane.lane = held.lane
