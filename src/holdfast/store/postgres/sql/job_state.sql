SELECT job.seq, job.state, job.token, job.event_count, job.priority, job.run_after, job.finished_at, job.lane, body.key,
       body.callback
  FROM holdfast.body AS body
  JOIN holdfast.job AS job ON job.seq = body.seq
 WHERE body.id = :id::text
