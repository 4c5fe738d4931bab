-- Exactly those that were locked when they were looked at.
DELETE FROM holdfast.scheduled
 WHERE ctid = ANY (ARRAY(
           SELECT own.place
             FROM unnest((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AS given (seq)
            CROSS JOIN LATERAL (SELECT run_after FROM holdfast.job WHERE job.seq = given.seq OFFSET 0) AS job
            CROSS JOIN LATERAL (SELECT ctid AS place FROM holdfast.scheduled
                                 WHERE scheduled.run_after = job.run_after AND scheduled.seq = given.seq OFFSET 0) AS own))
