-- What succeed_jobs and the verbs around it do elsewhere, at once: those of the :leases, {seq: token}, that are the current claim, and
-- that nobody else is about to change, succeed. Their numbers.
-- results: {seq: [started_at or null to keep, finished_at, result]}
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
    UPDATE {schema}.job_state AS job
       SET state = 'succeeded', event_count = event_count + 1, reason = NULL,
           (started_at, finished_at, result) = (
               SELECT coalesce((own.value ->> 0)::bigint, job.started_at), (own.value ->> 1)::bigint, own.value ->> 2
                 FROM (SELECT (SELECT :results::jsonb) -> job.seq::text AS value OFFSET 0) AS own)
     WHERE seq = ANY (ARRAY(SELECT seq FROM ended))
    RETURNING seq, lane, event_count, finished_at
),
listed AS (
    INSERT INTO {schema}.finished (finished_at, seq, lane, state) SELECT finished_at, seq, lane, 'succeeded' FROM finished
),
told AS (
    INSERT INTO {schema}.event (job, number, kind, at) SELECT seq, event_count, 'succeeded', :now::bigint FROM finished
)
SELECT coalesce(json_agg(seq), '[]')::text FROM finished
