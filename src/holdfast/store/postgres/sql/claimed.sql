-- In the order of seq. The last column gathers what most jobs do not have.
SELECT '[' || coalesce(string_agg(concat('[', concat_ws(',', job.seq, job.token, job.lane, to_json(body.id),
                                                       to_json(body.arguments), job.attempt, body.attempts_max, body.priority,
                                                       body.created_at, job.started_at, rest.fields), ']'), ','), '') || ']'
  FROM holdfast.moved AS job
  JOIN holdfast.body AS body ON body.seq = job.seq
 CROSS JOIN LATERAL (
       SELECT CASE WHEN coalesce(job.run_after::text, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                 job.reason, body.callback) IS NULL
                   THEN 'null'
                   ELSE json_build_array(job.run_after, job.progress, job.meter, body.key, body.tags, body.meta, body.parent,
                                         job.reason, body.callback)::text
              END AS fields) AS rest
 WHERE job.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
