-- Many jobs that differ only in :arguments, a JSON array of JSON texts; ids count on from (:id_head, :id_low).
INSERT INTO holdfast.body (seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, meta, parent, callback)
SELECT :first::bigint + given.place - 1, :id_head::text || lpad(to_hex(:id_low::bigint + given.place - 1), 12, '0'),
       :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, :run_after::bigint,
       given.arguments, :meta::text, :parent::text, :callback::text
  FROM json_array_elements_text(:arguments::json) WITH ORDINALITY AS given (arguments, place)
