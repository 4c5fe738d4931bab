-- Exactly those that were locked when they were looked at.
DELETE FROM {schema}.scheduled
 WHERE ctid = ANY (ARRAY(
           SELECT own.place
             FROM unnest((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AS given (seq)
            CROSS JOIN LATERAL (SELECT run_after FROM {schema}.job WHERE job.seq = given.seq OFFSET 0) AS job
            CROSS JOIN LATERAL (SELECT ctid AS place FROM {schema}.scheduled
                                 WHERE scheduled.run_after = job.run_after AND scheduled.seq = given.seq OFFSET 0) AS own))
