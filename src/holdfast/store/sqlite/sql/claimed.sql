-- In the order of :seqs (CROSS JOIN keeps json_each outermost). The last column gathers what most jobs do not have.
SELECT json_group_array(json_array(
           job.seq, job.token, job.lane, body.id, body.arguments, job.attempt, body.attempts_max, body.priority, body.created_at,
           job.started_at,
           CASE WHEN coalesce(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                              job.reason, body.callback) IS NOT NULL
                THEN json_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                job.reason, body.callback)
           END))
  FROM json_each(:seqs) AS wanted
 CROSS JOIN holdfast_moved AS job ON job.seq = wanted.value
 CROSS JOIN holdfast_body AS body ON body.seq = wanted.value
