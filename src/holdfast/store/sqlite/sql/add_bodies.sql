-- Many jobs that differ only in :arguments, a JSON array of JSON texts; ids count on from (:id_head, :id_low).
-- One statement for all of them: row by row, this was half of what a bulk enqueue costs.
INSERT INTO holdfast_body (seq, id, arguments, meta, parent, callback, scheduled_for)
SELECT :first + given.key, printf('%s%012x', :id_head, :id_low + given.key), given.value, :meta, :parent, :callback,
       :run_after
  FROM json_each(:arguments) AS given
