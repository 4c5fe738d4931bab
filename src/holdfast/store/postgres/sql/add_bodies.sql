-- Many jobs that differ only in :arguments, a JSON array of JSON texts; ids count on from (:id_head, :id_low).
INSERT INTO holdfast.body (seq, id, arguments, meta, parent, callback, scheduled_for)
SELECT :first::bigint + given.place - 1, :id_head::text || lpad(to_hex(:id_low::bigint + given.place - 1), 12, '0'),
       given.arguments, :meta::text, :parent::text, :callback::text, :run_after::bigint
  FROM json_array_elements_text(:arguments::json) WITH ORDINALITY AS given (arguments, place)
