-- The row of a job's key, whichever job holds it: locked before the job, as every transaction that takes a key does.
SELECT held.seq
  FROM {schema}.job_spec AS spec
 CROSS JOIN LATERAL (SELECT seq FROM {schema}.key WHERE key.key = spec.key FOR UPDATE) AS held
 WHERE spec.id = :id::text
