SELECT json_group_array(json_array(seq, token, lane, id, arguments, attempt, attempts_max, priority, created_at, run_after,
                                   started_at, progress, meter, key, tags, meta, parent, reason))
  FROM (SELECT job.* FROM json_each(:seqs) AS wanted JOIN holdfast_job AS job ON job.seq = wanted.value ORDER BY wanted.key)
