-- Many rows. The narrow tables and the first events follow by range of seq.
INSERT INTO holdfast_job
       (seq, id, lane, state, priority, attempts_max, created_at, run_after, arguments, key, tags, meta, parent)
VALUES (:seq, :id, :lane, :state, :priority, :attempts_max, :created_at, :run_after, :arguments, :key, :tags, :meta, :parent)
