-- counts: [seq, how many]
UPDATE holdfast_job_state SET event_count = event_count + json_extract(added.value, '$[1]')
  FROM json_each(:counts) AS added
 WHERE holdfast_job_state.seq = json_extract(added.value, '$[0]')
