-- Jobs of bounded queues that wait again: they are not refused, but counted.
INSERT INTO {schema}.returned (queue, jobs)
SELECT lane.queue, count(*)
  FROM unnest((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AS given (seq)
 CROSS JOIN LATERAL (SELECT lane FROM {schema}.job_spec WHERE job_spec.seq = given.seq OFFSET 0) AS spec
 CROSS JOIN LATERAL (SELECT queue, bounded FROM {schema}.lane WHERE lane.lane = spec.lane OFFSET 0) AS lane
 WHERE lane.bounded = 1
 GROUP BY lane.queue
