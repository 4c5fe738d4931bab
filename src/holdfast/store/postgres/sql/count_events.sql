-- counts: [seq, how many]
WITH added AS MATERIALIZED (SELECT jsonb_object_agg(value ->> 0, value -> 1) AS by_job FROM jsonb_array_elements(:counts::jsonb))
UPDATE {schema}.job_state AS job
   SET event_count = job.event_count + (added.by_job ->> seq::text)::integer
  FROM added
 WHERE job.seq = ANY (ARRAY(SELECT (value ->> 0)::bigint FROM jsonb_array_elements(:counts::jsonb)))
