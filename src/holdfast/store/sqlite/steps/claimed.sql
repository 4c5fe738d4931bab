-- In the order of :seqs (CROSS JOIN keeps json_each outermost). The last column gathers what most jobs do not
-- have, as text (|| '').
SELECT json_group_array(json_array(
           job.seq, job.token, job.lane, spec.id, spec.arguments, job.attempt, spec.attempts_max, spec.priority, spec.created_at,
           job.started_at,
           CASE WHEN coalesce(job.run_after, job.progress, job.meter, spec.key, spec.tags, spec.meta, spec.parent,
                              job.reason, spec.callback) IS NOT NULL
                THEN json_array(job.run_after, job.progress, job.meter, spec.key, spec.tags, spec.meta, spec.parent,
                                job.reason, spec.callback) || ''
           END))
  FROM json_each(:seqs) AS wanted
 CROSS JOIN holdfast_job_state AS job ON job.seq = wanted.value
 CROSS JOIN holdfast_job_spec AS spec ON spec.seq = wanted.value
