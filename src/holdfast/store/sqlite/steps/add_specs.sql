-- jobs: {distance from the first: [arguments, priority, key, tags, meta, run_after, parent, id]}, each of :width columns: every
-- json_extract costs, also of what is not there. Without an id of the caller's it counts from (:id_head, :id_low). A job whose id is
-- taken is left out.
INSERT INTO holdfast_job_spec (
       seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
SELECT :first + key, coalesce(CASE WHEN :width > 7 THEN json_extract(value, '$[7]') END, printf('%s%012x', :id_head, :id_low + key)),
       :lane, json_extract(value, '$[1]'), :attempts_max, :now, CASE WHEN :width > 5 THEN json_extract(value, '$[5]') END,
       json_extract(value, '$[0]'), CASE WHEN :width > 2 THEN json_extract(value, '$[2]') END,
       CASE WHEN :width > 3 THEN json_extract(value, '$[3]') END, CASE WHEN :width > 4 THEN json_extract(value, '$[4]') END,
       CASE WHEN :width > 6 THEN json_extract(value, '$[6]') END, :callback
  FROM json_each(:jobs)
 WHERE true
    ON CONFLICT (id) DO NOTHING
