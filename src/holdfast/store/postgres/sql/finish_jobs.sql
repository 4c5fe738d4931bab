-- What succeed_jobs and the verbs around it do elsewhere, at once: those of the :leases, {seq: token}, that are the current claim, and
-- that nobody else is about to change, succeed. Their numbers. results: {seq: result}
WITH held AS MATERIALIZED (
    SELECT running.ctid AS place
      FROM {schema}.running AS running
     WHERE running.seq = ANY (ARRAY(SELECT jsonb_object_keys(:leases::jsonb)::bigint))
       AND running.token = ((SELECT :leases::jsonb) ->> running.seq::text)::bigint
       AND (:worker::bigint IS NULL OR running.worker = :worker::bigint)
       FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM {schema}.running WHERE ctid = ANY (ARRAY(SELECT place FROM held)) RETURNING seq
),
finished AS (
    UPDATE {schema}.job_state
       SET state = 'succeeded', finished_at = :now::bigint, event_count = event_count + 1, reason = NULL,
           result = (SELECT :results::jsonb) ->> seq::text
     WHERE seq = ANY (ARRAY(SELECT seq FROM ended))
    RETURNING seq, lane, event_count
),
listed AS (
    INSERT INTO {schema}.finished (finished_at, seq, lane, state) SELECT :now::bigint, seq, lane, 'succeeded' FROM finished
),
told AS (
    INSERT INTO {schema}.event (job, number, kind, at) SELECT seq, event_count, 'succeeded', :now::bigint FROM finished
)
SELECT coalesce(json_agg(seq), '[]')::text FROM finished
