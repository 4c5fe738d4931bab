-- Of leases that `held_free` left out: which are the current claim, as far as anybody can see, and locked.
SELECT coalesce(json_agg(seq), '[]')::text
  FROM (SELECT running.seq
          FROM holdfast.running AS running
         WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
           AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
         ORDER BY running.seq) AS current
