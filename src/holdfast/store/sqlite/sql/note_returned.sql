-- Jobs of bounded queues that wait again: they are not refused, but counted.
INSERT INTO holdfast_returned (queue, jobs)
SELECT lane.queue, count(*)
  FROM json_each(:seqs) AS given
 CROSS JOIN holdfast_job_spec AS spec ON spec.seq = given.value
 CROSS JOIN holdfast_lane AS lane ON lane.lane = spec.lane
 WHERE lane.bounded = 1
 GROUP BY lane.queue
