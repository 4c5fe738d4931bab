-- changes: [seq, state, result, reason, run_after, finished_at, attempt_back, started_at or null to keep]
UPDATE holdfast_job_state
   SET state = json_extract(change.value, '$[1]'), result = json_extract(change.value, '$[2]'),
       reason = json_extract(change.value, '$[3]'), run_after = coalesce(json_extract(change.value, '$[4]'), run_after),
       finished_at = json_extract(change.value, '$[5]'), attempt = attempt - json_extract(change.value, '$[6]'),
       started_at = coalesce(json_extract(change.value, '$[7]'), started_at)
  FROM json_each(:changes) AS change
 WHERE holdfast_job_state.seq = json_extract(change.value, '$[0]')
