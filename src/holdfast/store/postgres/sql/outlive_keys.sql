-- Keys whose scope is longer than their jobs' lives stay when these are pruned, with the state in which the job ended.
UPDATE holdfast.key AS held
   SET ended = job.state
  FROM holdfast.body AS body
  JOIN holdfast.moved AS job ON job.seq = body.seq
 WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND held.key = body.key AND held.seq = body.seq
   AND (held.scope = 'forever' OR (held.scope = 'seconds' AND held.until > :now::bigint))
   AND NOT (held.failed = 'free' AND job.state = 'failed')
