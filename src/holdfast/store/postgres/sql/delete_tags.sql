DELETE FROM holdfast.tag
 WHERE ctid = ANY (ARRAY(
           SELECT own.place
             FROM holdfast.body AS body
            CROSS JOIN LATERAL json_array_elements_text(body.tags::json) AS given (tag)
            CROSS JOIN LATERAL (SELECT ctid AS place FROM holdfast.tag
                                 WHERE tag.tag = given.tag AND tag.seq = body.seq OFFSET 0) AS own
            WHERE body.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND body.tags IS NOT NULL))
