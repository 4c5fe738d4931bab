-- changes: [seq, state, result, reason, run_after, finished_at, attempt_back]
UPDATE holdfast.moved AS job
   SET state = change.value ->> 1, result = change.value ->> 2, reason = change.value ->> 3,
       run_after = coalesce((change.value ->> 4)::bigint, job.run_after), finished_at = (change.value ->> 5)::bigint,
       attempt = job.attempt - (change.value ->> 6)::integer
  FROM jsonb_array_elements(:changes::jsonb) AS change (value)
 WHERE job.seq = (change.value ->> 0)::bigint
