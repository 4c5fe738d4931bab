-- jobs: [seq, id, arguments, priority, key, tags, meta, run_after, parent]. A job whose id is taken is left out.
INSERT INTO holdfast_job_spec (
       seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), :lane, json_extract(value, '$[3]'), :attempts_max, :now,
       json_extract(value, '$[7]'), json_extract(value, '$[2]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
       json_extract(value, '$[6]'), json_extract(value, '$[8]'), :callback
  FROM json_each(:jobs)
 WHERE true
    ON CONFLICT (id) DO NOTHING
