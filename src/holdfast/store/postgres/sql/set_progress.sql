-- reported: [seq, progress or null to keep, meter or null to keep]
WITH reported AS MATERIALIZED (SELECT jsonb_object_agg(value ->> 0, value) AS by_job FROM jsonb_array_elements(:reported::jsonb))
UPDATE {schema}.job_state AS job
   SET progress = coalesce(reported.by_job -> seq::text ->> 1, job.progress), meter = coalesce(reported.by_job -> seq::text ->> 2, job.meter)
  FROM reported
 WHERE job.seq = ANY (ARRAY(SELECT (value ->> 0)::bigint FROM jsonb_array_elements(:reported::jsonb)))
