-- jobs: [seq, arguments]. Which of these jobs were enqueued with other arguments.
SELECT json_group_array(spec.seq)
  FROM json_each(:jobs) AS given
 CROSS JOIN holdfast_job_spec AS spec ON spec.seq = json_extract(given.value, '$[0]')
 WHERE spec.arguments <> json_extract(given.value, '$[1]')
