-- counts: [seq, how many]
UPDATE holdfast.moved AS job SET event_count = job.event_count + (added.value ->> 1)::integer
  FROM jsonb_array_elements(:counts::jsonb) AS added (value)
 WHERE job.seq = (added.value ->> 0)::bigint
