-- Which of these leases, {seq: token}, are still the current claim: nobody can take those from us in this transaction.
SELECT coalesce(json_agg(seq), '[]')::text
  FROM (SELECT running.seq
          FROM holdfast.running AS running
         WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
           AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
         ORDER BY running.seq
           FOR UPDATE) AS current
