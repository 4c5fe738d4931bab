-- errors: [seq, attempt, at, kind, message, traceback]; of a job that fails endlessly the newest :keep are kept.
INSERT OR REPLACE INTO holdfast_error (job, token, attempt, at, kind, message, traceback)
SELECT job.seq, job.token, json_extract(error.value, '$[1]'), json_extract(error.value, '$[2]'),
       json_extract(error.value, '$[3]'), json_extract(error.value, '$[4]'), json_extract(error.value, '$[5]')
  FROM json_each(:errors) AS error
  JOIN holdfast_job_state AS job ON job.seq = json_extract(error.value, '$[0]')
