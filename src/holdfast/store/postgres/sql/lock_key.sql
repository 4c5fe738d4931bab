-- The row of a job's key, whoever has it: before the job itself, as who takes a key does it.
SELECT held.seq
  FROM {schema}.job_spec AS spec
 CROSS JOIN LATERAL (SELECT seq FROM {schema}.key WHERE key.key = spec.key FOR UPDATE) AS held
 WHERE spec.id = :id::text
