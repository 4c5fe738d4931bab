-- What an idle worker that is looking does, in one statement and one round trip: if something is ready in exactly one of its
-- lanes, it is claimed, as beat, ready_in_lane, take_ready, start_jobs and claimed do it step by step. Who finds nothing writes
-- nothing. The rest is what `idle` says: `ready` is left for those steps, where several lanes have something or we are given up.
WITH RECURSIVE filled (lane) AS (
    SELECT min(lane) FROM holdfast.ready
    UNION ALL
    SELECT (SELECT min(ready.lane) FROM holdfast.ready WHERE ready.lane > filled.lane) FROM filled WHERE filled.lane IS NOT NULL
),
mine AS MATERIALIZED (
    SELECT lane.lane, lane.task
      FROM filled
      JOIN holdfast.lane AS lane ON lane.lane = filled.lane
     WHERE (:queues::json IS NULL OR lane.queue IN (SELECT json_array_elements_text(:queues::json)))
       AND (:tasks::json IS NULL OR lane.task IN (SELECT json_array_elements_text(:tasks::json)))
),
offered AS MATERIALIZED (
    SELECT ctid AS place
      FROM holdfast.ready
     WHERE lane = (SELECT min(mine.lane) FROM mine HAVING count(*) = 1)
     ORDER BY lane, priority, seq
     LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
),
beaten AS (
    UPDATE holdfast.worker SET beat_at = :now::bigint, beat_tick = :tick::bigint, boot = :boot::text
     WHERE id = :worker::bigint AND EXISTS (SELECT 1 FROM offered)
    RETURNING id
),
taken AS (
    DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY (SELECT place FROM offered CROSS JOIN beaten)) RETURNING lane, seq
),
again AS (
    UPDATE holdfast.moved
       SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = :now::bigint
     WHERE seq = ANY (ARRAY (SELECT seq FROM taken))
    RETURNING seq, lane, attempt, token, event_count, run_after, progress, meter, reason
),
first AS (
    INSERT INTO holdfast.moved (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, lane, 'running', 1, 1, 2, :now::bigint
      FROM taken
     WHERE NOT EXISTS (SELECT 1 FROM holdfast.moved WHERE moved.seq = taken.seq)
    RETURNING seq, lane, attempt, token, event_count, run_after, progress, meter, reason
),
started AS (SELECT * FROM first UNION ALL SELECT * FROM again),
leased AS (
    INSERT INTO holdfast.running (seq, token, worker, lease, lane)
    SELECT seq, token, :worker::bigint,
           (SELECT coalesce((:leases::jsonb ->> mine.task)::bigint, :lease::bigint) FROM mine WHERE mine.lane = started.lane), lane
      FROM started
),
told AS (
    INSERT INTO holdfast.event (job, number, kind, at, data)
    SELECT seq, event_count, 'started', :now::bigint, :told::text || attempt || '}' FROM started
)
SELECT (SELECT '[' || coalesce(string_agg(concat('[', concat_ws(',', job.seq, job.token, job.lane, to_json(body.id),
                                                               to_json(body.arguments), job.attempt, body.attempts_max,
                                                               body.priority, body.created_at, :now::bigint, rest.fields), ']'),
                                          ','), '') || ']'
          FROM started AS job
          JOIN holdfast.body AS body ON body.seq = job.seq
         CROSS JOIN LATERAL (
               SELECT CASE WHEN coalesce(job.run_after::text, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                         job.reason, body.callback) IS NULL
                           THEN 'null'
                           ELSE json_build_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta,
                                                 body.parent, job.reason, body.callback)::text
                      END AS fields) AS rest),
       (SELECT count(*) > 1 FROM mine) OR (EXISTS (SELECT 1 FROM offered) AND NOT EXISTS (SELECT 1 FROM beaten)),
       EXISTS (SELECT 1 FROM holdfast.scheduled WHERE run_after <= :now::bigint)
           OR EXISTS (SELECT 1 FROM holdfast.notice WHERE worker = :worker::bigint)
           OR EXISTS (SELECT 1 FROM holdfast.finished WHERE finished_at < :horizon::bigint)
           OR EXISTS (SELECT 1 FROM holdfast.worker AS worker
                       WHERE (worker.boot <> :boot::text OR worker.beat_tick + worker.lease_min < :tick::bigint)
                         AND EXISTS (SELECT 1 FROM holdfast.running AS running WHERE running.worker = worker.id)),
       (SELECT min(run_after) FROM holdfast.scheduled)
