-- Ended jobs with a callback: the columns of its message.
SELECT job.seq, job.id, lane.task, lane.queue, job.state, job.attempt, job.event_count, job.created_at, job.finished_at,
       job.result, job.reason, job.key, job.tags, job.meta, job.callback
  FROM json_array_elements_text(:seqs::json) AS wanted (seq)
 CROSS JOIN LATERAL (SELECT * FROM {schema}.job WHERE job.seq = wanted.seq::bigint OFFSET 0) AS job
  JOIN {schema}.lane AS lane ON lane.lane = job.lane
 WHERE job.callback IS NOT NULL
 ORDER BY job.seq
