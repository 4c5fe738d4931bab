-- What an idle worker does when somebody has committed, in one statement and one round trip: if something is ready in exactly one
-- of its lanes, it is claimed, as beat, ready_in_lane, take_ready, start_jobs and claimed do it step by step. Who finds nothing
-- writes nothing. It works only for who knows of the worker's last beat: if its client gave it up and has gone on, a statement that
-- comes to its end at last takes nothing. What it is told besides: in how many lanes something is ready, how much was offered (which is left where the
-- worker was), whether there is a notice, and when the next scheduled job is due.
-- Every part costs, used or not: all of the plan is set up each time.
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
     WHERE id = :worker::bigint AND beat_tick = :beat_tick::bigint AND EXISTS (SELECT 1 FROM offered)
    RETURNING id
),
taken AS (
    DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY (SELECT place FROM offered CROSS JOIN beaten)) RETURNING lane, seq
),
started AS (
    INSERT INTO holdfast.moved AS moved (seq, lane, state, attempt, token, event_count, started_at)
    SELECT seq, lane, 'running', 1, 1, 2, :now::bigint FROM taken
        ON CONFLICT (seq) DO UPDATE
           SET state = 'running', attempt = moved.attempt + 1, token = moved.token + 1, event_count = moved.event_count + 1,
               started_at = excluded.started_at
    RETURNING seq, lane, attempt, token, event_count, run_after, progress, meter, reason
),
leased AS (
    INSERT INTO holdfast.running (seq, token, worker, lease, lane)
    SELECT seq, token, :worker::bigint, coalesce((:leases::jsonb ->> mine.task)::bigint, :lease::bigint), mine.lane
      FROM started CROSS JOIN mine
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
         CROSS JOIN LATERAL (SELECT * FROM holdfast.body WHERE body.seq = job.seq OFFSET 0) AS body
         CROSS JOIN LATERAL (
               SELECT CASE WHEN coalesce(job.run_after::text, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                         job.reason, body.callback) IS NULL
                           THEN 'null'
                           ELSE json_build_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta,
                                                 body.parent, job.reason, body.callback)::text
                      END AS fields) AS rest),
       (SELECT count(*) FROM mine),
       (SELECT count(*) FROM offered),
       EXISTS (SELECT 1 FROM holdfast.notice WHERE worker = :worker::bigint),
       (SELECT min(run_after) FROM holdfast.scheduled)
