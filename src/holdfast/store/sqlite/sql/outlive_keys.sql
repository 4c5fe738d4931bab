-- Keys whose scope is longer than their jobs' lives stay when these are pruned, with the state in which the job ended.
UPDATE holdfast_key
   SET ended = (SELECT state FROM holdfast_job WHERE holdfast_job.seq = holdfast_key.seq)
 WHERE (scope = 'forever' OR (scope = 'seconds' AND until > :now))
   AND key IN (SELECT key FROM holdfast_body WHERE seq IN (SELECT value FROM json_each(:seqs)) AND key IS NOT NULL)
   AND seq IN (SELECT value FROM json_each(:seqs))
