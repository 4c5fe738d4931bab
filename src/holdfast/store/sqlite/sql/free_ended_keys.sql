DELETE FROM holdfast_key
 WHERE ended IS NULL
   AND key IN (SELECT key FROM holdfast_job_spec WHERE seq IN (SELECT value FROM json_each(:seqs)) AND key IS NOT NULL)
   AND seq IN (SELECT value FROM json_each(:seqs))
