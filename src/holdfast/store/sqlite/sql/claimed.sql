-- The last column gathers what most jobs do not have.
SELECT json_group_array(json_array(seq, token, lane, id, arguments, attempt, attempts_max, priority, created_at, started_at, json(rest)))
  FROM (SELECT job.seq, job.token, job.lane, body.id, body.arguments, job.attempt, job.attempts_max, job.priority,
               job.created_at, job.started_at,
               CASE WHEN coalesce(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                  job.reason) IS NOT NULL
                    THEN json_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                    job.reason)
               END AS rest
          FROM json_each(:seqs) AS wanted
          JOIN holdfast_job AS job ON job.seq = wanted.value
          JOIN holdfast_body AS body ON body.seq = wanted.value
         ORDER BY wanted.id)
