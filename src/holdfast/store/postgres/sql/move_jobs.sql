-- changes: [seq, state, result, reason, run_after, finished_at, attempt_back, started_at or null to keep]. (Found by their keys: a
-- join could be made the other way round, from all jobs to these.)
WITH change AS MATERIALIZED (SELECT jsonb_object_agg(value ->> 0, value) AS by_job FROM jsonb_array_elements(:changes::jsonb))
UPDATE {schema}.job_state AS job
   SET (state, result, reason, run_after, finished_at, attempt, started_at) = (
           SELECT own.value ->> 1, own.value ->> 2, own.value ->> 3, coalesce((own.value ->> 4)::bigint, job.run_after),
                  (own.value ->> 5)::bigint, job.attempt - (own.value ->> 6)::integer, coalesce((own.value ->> 7)::bigint, job.started_at)
             FROM (SELECT change.by_job -> job.seq::text AS value OFFSET 0) AS own)
  FROM change
 WHERE job.seq = ANY (ARRAY(SELECT (value ->> 0)::bigint FROM jsonb_array_elements(:changes::jsonb)))
