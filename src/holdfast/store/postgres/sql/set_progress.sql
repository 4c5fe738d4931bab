-- progress: [seq, progress or null to keep, meter or null to keep]
UPDATE holdfast.moved AS job
   SET progress = coalesce(told.value ->> 1, job.progress), meter = coalesce(told.value ->> 2, job.meter)
  FROM jsonb_array_elements(:told::jsonb) AS told (value)
 WHERE job.seq = (told.value ->> 0)::bigint
