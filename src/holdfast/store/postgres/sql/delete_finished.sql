DELETE FROM {schema}.finished
 WHERE ctid = ANY (ARRAY(
           SELECT own.place
             FROM unnest((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AS given (seq)
            CROSS JOIN LATERAL (SELECT finished_at FROM {schema}.job_state WHERE job_state.seq = given.seq OFFSET 0) AS job
            CROSS JOIN LATERAL (SELECT ctid AS place FROM {schema}.finished
                                 WHERE finished.finished_at = job.finished_at AND finished.seq = given.seq OFFSET 0) AS own))
