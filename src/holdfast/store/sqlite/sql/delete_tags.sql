DELETE FROM holdfast_tag
 WHERE (tag, seq) IN (SELECT tag.value, body.seq FROM holdfast_body AS body, json_each(body.tags) AS tag
                       WHERE body.seq IN (SELECT value FROM json_each(:seqs)) AND body.tags IS NOT NULL)
