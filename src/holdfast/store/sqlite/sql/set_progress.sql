-- progress: [seq, progress or null to keep, meter or null to keep]
UPDATE holdfast_job_state
   SET progress = coalesce(json_extract(reported.value, '$[1]'), progress), meter = coalesce(json_extract(reported.value, '$[2]'), meter)
  FROM json_each(:reported) AS reported
 WHERE holdfast_job_state.seq = json_extract(reported.value, '$[0]')
