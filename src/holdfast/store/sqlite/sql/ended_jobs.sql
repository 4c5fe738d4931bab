-- Ended jobs with a callback: the columns of its message.
SELECT job.seq, job.id, lane.task, lane.queue, job.state, job.attempt, job.event_count, job.created_at, job.finished_at,
       job.result, job.reason, job.key, job.tags, job.meta, job.callback
  FROM json_each(:seqs) AS wanted
  JOIN holdfast_job AS job ON job.seq = wanted.value
  JOIN holdfast_lane AS lane ON lane.lane = job.lane
 WHERE job.callback IS NOT NULL
 ORDER BY job.seq
