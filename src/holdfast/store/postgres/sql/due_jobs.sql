-- Due jobs that no other transaction is promoting or cancelling at this moment.
SELECT coalesce(json_agg(seq), '[]')::text
  FROM (SELECT seq FROM {schema}.scheduled WHERE run_after <= :now::bigint
         ORDER BY run_after, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED) AS due
