-- How many jobs of these lanes are ready, running and scheduled, and how many of the last were tried before and back off.
WITH asked AS MATERIALIZED (SELECT translate(:lanes::text, '[]', '{}')::integer[] AS lanes)
SELECT (SELECT count(*) FROM {schema}.ready WHERE lane = ANY ((SELECT lanes FROM asked)::integer[])),
       (SELECT count(*) FROM {schema}.running WHERE lane = ANY ((SELECT lanes FROM asked)::integer[])),
       count(*), count(*) FILTER (WHERE job_state.attempt > 0)
  FROM {schema}.scheduled AS scheduled
  LEFT JOIN {schema}.job_state AS job_state ON job_state.seq = scheduled.seq
 WHERE scheduled.lane = ANY ((SELECT lanes FROM asked)::integer[])
