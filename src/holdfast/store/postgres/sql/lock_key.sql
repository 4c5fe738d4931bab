-- The row of a job's key, whoever has it: before the job itself, as who takes a key does it.
SELECT held.seq
  FROM holdfast.body AS body
 CROSS JOIN LATERAL (SELECT seq FROM holdfast.key WHERE key.key = body.key FOR UPDATE) AS held
 WHERE body.seq = (SELECT holdfast.number_of(:id::text))
