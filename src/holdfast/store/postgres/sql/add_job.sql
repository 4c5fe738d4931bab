-- A job with no key, no tags and no id of its caller's, ready at once: all of its rows.
WITH new AS MATERIALIZED (SELECT nextval('holdfast.job_seq') AS seq),
body AS (
    INSERT INTO holdfast.body (seq, id, lane, priority, attempts_max, created_at, arguments, meta, parent)
    SELECT seq, :id::text, :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, :arguments::text,
           :meta::text, :parent::text
      FROM new
)
INSERT INTO holdfast.ready (lane, priority, seq) SELECT :lane::integer, :priority::integer, seq FROM new
