-- told: [seq, progress or null to keep, meter or null to keep]
WITH told AS MATERIALIZED (SELECT jsonb_object_agg(value ->> 0, value) AS by_job FROM jsonb_array_elements(:told::jsonb))
UPDATE holdfast.moved AS job
   SET progress = coalesce(told.by_job -> seq::text ->> 1, job.progress), meter = coalesce(told.by_job -> seq::text ->> 2, job.meter)
  FROM told
 WHERE job.seq = ANY (ARRAY(SELECT (value ->> 0)::bigint FROM jsonb_array_elements(:told::jsonb)))
