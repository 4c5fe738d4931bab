-- Keys whose scope is longer than their jobs' lives stay when these are pruned, with the state in which the job ended.
UPDATE holdfast_key
   SET ended = job.state
  FROM holdfast_job_state AS job
 WHERE job.seq = holdfast_key.seq
   AND (scope = 'forever' OR (scope = 'seconds' AND until > :now))
   AND NOT (failed = 'free' AND job.state = 'failed')
   AND key IN (SELECT key FROM holdfast_job_spec WHERE seq IN (SELECT value FROM json_each(:seqs)) AND key IS NOT NULL)
   AND holdfast_key.seq IN (SELECT value FROM json_each(:seqs))
