-- Many jobs that differ only in :arguments, a JSON array of JSON texts; ids count on from (:id_head, :id_low).
-- One statement for all of them: row by row, this was half of what a bulk enqueue costs.
INSERT INTO holdfast_body (seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, meta, parent, callback)
SELECT :first + given.key, printf('%s%012x', :id_head, :id_low + given.key), :lane, :priority, :attempts_max, :now, :run_after,
       given.value, :meta, :parent, :callback
  FROM json_each(:arguments) AS given
