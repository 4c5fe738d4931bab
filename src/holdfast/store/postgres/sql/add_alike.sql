-- Jobs that differ only in :arguments, a JSON array of JSON texts: all of their rows. Their numbers count from :first, their ids from
-- (:id_head, :id_low).
WITH spec AS (
    INSERT INTO {schema}.job_spec (
           seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, meta, parent, callback)
    SELECT :first::bigint + given.place - 1, :id_head::text || lpad(to_hex(:id_low::bigint + given.place - 1), 12, '0'),
           :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, :run_after::bigint, given.arguments,
           :meta::text, :parent::text, :callback::text
      FROM json_array_elements_text(:arguments::json) WITH ORDINALITY AS given (arguments, place)
),
ready AS (
    INSERT INTO {schema}.ready (lane, priority, seq)
    SELECT :lane::integer, :priority::integer, seq FROM generate_series(:first::bigint, :last::bigint) AS seq
     WHERE :run_after::bigint IS NULL
)
INSERT INTO {schema}.scheduled (run_after, seq, lane)
SELECT :run_after::bigint, seq, :lane::integer FROM generate_series(:first::bigint, :last::bigint) AS seq
 WHERE :run_after::bigint IS NOT NULL
