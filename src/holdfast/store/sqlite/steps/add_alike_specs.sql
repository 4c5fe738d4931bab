-- One statement for all of them: row by row, Python's sqlite3 releases and takes the interpreter's lock for each.
INSERT INTO holdfast_job_spec (seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, meta, parent, callback)
SELECT :first + given.key, printf('%s%012x', :id_head, :id_low + given.key), :lane, :priority, :attempts_max, :now, :run_after,
       given.value, :meta, :parent, :callback
  FROM json_each(:arguments) AS given
