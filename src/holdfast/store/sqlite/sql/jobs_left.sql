-- How many jobs of these lanes are ready, running and scheduled, and how many of the last were tried before and back off.
SELECT (SELECT count(*) FROM holdfast_ready WHERE lane IN (SELECT value FROM json_each(:lanes))),
       (SELECT count(*) FROM holdfast_running WHERE lane IN (SELECT value FROM json_each(:lanes))),
       count(*), coalesce(sum(job_state.attempt > 0), 0)
  FROM holdfast_scheduled AS scheduled
  LEFT JOIN holdfast_job_state AS job_state ON job_state.seq = scheduled.seq
 WHERE scheduled.lane IN (SELECT value FROM json_each(:lanes))
