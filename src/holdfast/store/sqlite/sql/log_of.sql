-- A job's first event, where the others are kept, how many there are, and whether more will come.
SELECT job.seq, job.created_at, body.scheduled_for, job.event_count, job.state
  FROM holdfast_body AS body
  JOIN holdfast_job AS job ON job.seq = body.seq
 WHERE body.id = :id
