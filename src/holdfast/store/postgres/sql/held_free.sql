-- As `held`, but those that another transaction is about to change are left out, not waited for.
SELECT coalesce(json_agg(seq), '[]')::text
  FROM (SELECT running.seq
          FROM holdfast.running AS running
         WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
           AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
         ORDER BY running.seq
           FOR UPDATE SKIP LOCKED) AS current
