DELETE FROM holdfast_tag
 WHERE (tag, seq) IN (SELECT tag.value, job.seq FROM holdfast_job AS job, json_each(job.tags) AS tag
                       WHERE job.seq IN (SELECT value FROM json_each(:seqs)) AND job.tags IS NOT NULL)
