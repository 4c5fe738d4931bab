-- The row of a job's key, whoever has it: before the job itself, as who takes a key does it.
SELECT held.seq
  FROM holdfast.body AS body
  JOIN holdfast.key AS held ON held.key = body.key
 WHERE body.id = :id::text
   FOR UPDATE OF held
