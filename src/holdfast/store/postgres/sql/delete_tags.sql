DELETE FROM holdfast.tag AS known
 USING holdfast.body AS body
 CROSS JOIN LATERAL json_array_elements_text(body.tags::json) AS tag (value)
 WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
   AND body.tags IS NOT NULL
   AND known.tag = tag.value AND known.seq = body.seq
