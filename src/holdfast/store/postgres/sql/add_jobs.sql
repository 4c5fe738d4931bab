-- jobs: {distance from the first: [arguments, priority, key, tags, meta, run_after, parent, id]}, without the last of them where no
-- job has those: all of their rows. Without an id of the caller's it counts from (:id_head, :id_low). A job whose id is taken is left
-- out, also where we had to wait for the transaction that took it. How many were added.
WITH spec AS (
    INSERT INTO {schema}.job_spec (
           seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
    SELECT :first::bigint + place::bigint, coalesce(job ->> 7, :id_head::text || lpad(to_hex(:id_low::bigint + place::bigint), 12, '0')),
           :lane::integer, (job ->> 1)::integer, :attempts_max::integer, :now::bigint, (job ->> 5)::bigint, job ->> 0, job ->> 2,
           job ->> 3, job ->> 4, job ->> 6, :callback::text
      FROM jsonb_each(:jobs::jsonb) AS given (place, job)
        ON CONFLICT (id) DO NOTHING
    RETURNING seq, lane, priority, scheduled_for, tags
),
ready AS (
    INSERT INTO {schema}.ready (lane, priority, seq) SELECT lane, priority, seq FROM spec WHERE scheduled_for IS NULL
),
scheduled AS (
    INSERT INTO {schema}.scheduled (run_after, seq, lane)
    SELECT scheduled_for, seq, lane FROM spec WHERE scheduled_for IS NOT NULL
),
tag AS (
    INSERT INTO {schema}.tag (tag, seq)
    SELECT tag, seq FROM spec CROSS JOIN LATERAL json_array_elements_text(tags::json) AS tag WHERE tags IS NOT NULL
)
SELECT count(*) FROM spec
