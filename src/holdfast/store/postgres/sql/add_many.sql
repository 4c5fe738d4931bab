-- :count jobs that differ only in their arguments, which are the :lines, all ready at once: all of their rows. Ids count on from
-- (:id_head, :id_low), numbers from :first, or from one that is taken now.
WITH new AS MATERIALIZED (SELECT coalesce(:first::bigint, nextval('holdfast.job_seq')) AS first),
body AS (
    INSERT INTO holdfast.body (seq, id, chunked, lane, priority, attempts_max, created_at, arguments, meta, parent)
    SELECT new.first + given.place - 1, :id_head::text || lpad(to_hex(:id_low::bigint + given.place - 1), 12, '0'), true,
           :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, given.arguments, :meta::text, :parent::text
      FROM new, string_to_table(:lines::text, E'\n') WITH ORDINALITY AS given (arguments, place)
),
ready AS (
    INSERT INTO holdfast.ready (lane, priority, seq)
    SELECT :lane::integer, :priority::integer, seq
      FROM new, generate_series(new.first, new.first + :count::bigint - 1) AS seq
),
chunk AS ( -- of these the last is written first: who comes behind this chunk finds that it is on its way
    INSERT INTO holdfast.chunk (first, last, id)
    SELECT first, first + :count::bigint - 1, :id_head::text || lpad(to_hex(:id_low::bigint), 12, '0') FROM new
)
SELECT first FROM new
