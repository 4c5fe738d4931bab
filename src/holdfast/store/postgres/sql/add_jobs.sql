-- jobs: [seq, id, arguments, priority, key, tags, meta, run_after, parent]: all of their rows. A job whose id is taken is left out,
-- also where we had to wait for the transaction that took it. How many were added.
WITH spec AS (
    INSERT INTO {schema}.job_spec (
           seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
    SELECT (job ->> 0)::bigint, job ->> 1, :lane::integer, (job ->> 3)::integer, :attempts_max::integer, :now::bigint,
           (job ->> 7)::bigint, job ->> 2, job ->> 4, job ->> 5, job ->> 6, job ->> 8, :callback::text
      FROM jsonb_array_elements(:jobs::jsonb) AS job
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
