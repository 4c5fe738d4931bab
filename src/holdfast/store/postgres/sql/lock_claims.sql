-- leases: {seq: token}. Which of them are the current claim: locked, after waiting for transactions that have them locked. None is
-- then locked elsewhere.
SELECT coalesce(json_agg(seq), '[]')::text, '[]'
  FROM (SELECT running.seq
          FROM {schema}.running AS running
         WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
           AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
           AND (:worker::bigint IS NULL OR running.worker = :worker::bigint)
         ORDER BY running.seq
           FOR UPDATE) AS current
