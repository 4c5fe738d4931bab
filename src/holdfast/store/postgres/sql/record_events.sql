-- events: [seq, offset, kind, at, data], numbered on from the job's count, which grows afterwards (count_events).
INSERT INTO {schema}.event (job, number, kind, at, data)
SELECT job.seq, job.event_count + (event.value ->> 1)::integer, event.value ->> 2, (event.value ->> 3)::bigint, event.value ->> 4
  FROM jsonb_array_elements(:events::jsonb) AS event (value)
 CROSS JOIN LATERAL (SELECT seq, event_count FROM {schema}.job_state WHERE seq = (event.value ->> 0)::bigint OFFSET 0) AS job
