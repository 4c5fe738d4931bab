UPDATE holdfast_job
   SET state = 'succeeded', finished_at = :now, event_count = event_count + 1, reason = NULL,
       result = json_extract(done.value, '$[1]')
  FROM json_each(:results) AS done
 WHERE holdfast_job.seq = json_extract(done.value, '$[0]')
