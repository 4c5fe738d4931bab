DELETE FROM {schema}.tag
 WHERE ctid = ANY (ARRAY(
           SELECT own.place
             FROM {schema}.job_spec AS spec
            CROSS JOIN LATERAL json_array_elements_text(spec.tags::json) AS given (tag)
            CROSS JOIN LATERAL (SELECT ctid AS place FROM {schema}.tag
                                 WHERE tag.tag = given.tag AND tag.seq = spec.seq OFFSET 0) AS own
            WHERE spec.seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AND spec.tags IS NOT NULL))
