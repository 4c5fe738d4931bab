-- leases: {seq: token}. Which of them are the current claim and locked now, and which are the current claim but locked elsewhere: these
-- are not waited for.
WITH current AS MATERIALIZED (
    SELECT running.seq
      FROM {schema}.running AS running
     WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
       AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
       AND (:worker::bigint IS NULL OR running.worker = :worker::bigint)
),
free AS MATERIALIZED (
    SELECT running.seq
      FROM {schema}.running AS running
     WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
       AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
       AND (:worker::bigint IS NULL OR running.worker = :worker::bigint)
     ORDER BY running.seq
       FOR UPDATE SKIP LOCKED
)
SELECT (SELECT coalesce(json_agg(seq), '[]')::text FROM free),
       (SELECT coalesce(json_agg(seq), '[]')::text FROM current WHERE seq NOT IN (SELECT seq FROM free))
