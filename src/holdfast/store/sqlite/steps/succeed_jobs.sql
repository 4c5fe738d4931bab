-- results: {seq: [started_at or null to keep, finished_at, result]}
UPDATE holdfast_job_state
   SET state = 'succeeded', event_count = event_count + 1, reason = NULL,
       started_at = coalesce(json_extract(done.value, '$[0]'), started_at), finished_at = json_extract(done.value, '$[1]'),
       result = json_extract(done.value, '$[2]')
  FROM json_each(:results) AS done
 WHERE holdfast_job_state.seq = CAST(done.key AS INTEGER)
