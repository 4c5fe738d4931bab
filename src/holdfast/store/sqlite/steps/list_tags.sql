INSERT OR IGNORE INTO holdfast_tag (tag, seq)
SELECT tag.value, spec.seq
  FROM holdfast_job_spec AS spec, json_each(spec.tags) AS tag
 WHERE spec.seq IN (SELECT value FROM json_each(:seqs)) AND spec.tags IS NOT NULL
