-- results: {seq: result}
UPDATE holdfast_job_state
   SET state = 'succeeded', finished_at = :now, event_count = event_count + 1, reason = NULL, result = done.value
  FROM json_each(:results) AS done
 WHERE holdfast_job_state.seq = CAST(done.key AS INTEGER)
