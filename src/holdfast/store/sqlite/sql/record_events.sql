-- events: [seq, offset, kind, at, data], numbered on from the job's count, which grows afterwards (count_events).
INSERT INTO holdfast_event (job, number, kind, at, data)
SELECT job.seq, job.event_count + json_extract(event.value, '$[1]'), json_extract(event.value, '$[2]'),
       json_extract(event.value, '$[3]'), json_extract(event.value, '$[4]')
  FROM json_each(:events) AS event
  JOIN holdfast_job_state AS job ON job.seq = json_extract(event.value, '$[0]')
