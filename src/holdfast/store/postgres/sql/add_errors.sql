-- errors: [seq, attempt, at, kind, message, traceback]
INSERT INTO {schema}.error AS known (job, token, attempt, at, kind, message, traceback)
SELECT DISTINCT ON (job.seq)
       job.seq, job.token, (error.value ->> 1)::integer, (error.value ->> 2)::bigint, error.value ->> 3, error.value ->> 4,
       error.value ->> 5
  FROM jsonb_array_elements(:errors::jsonb) WITH ORDINALITY AS error (value, place)
 CROSS JOIN LATERAL (SELECT seq, token FROM {schema}.job_state WHERE seq = (error.value ->> 0)::bigint OFFSET 0) AS job
 ORDER BY job.seq, error.place DESC
    ON CONFLICT (job, token) DO UPDATE
   SET attempt = excluded.attempt, at = excluded.at, kind = excluded.kind, message = excluded.message,
       traceback = excluded.traceback
