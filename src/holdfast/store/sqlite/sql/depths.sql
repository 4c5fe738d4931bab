-- How many jobs are where, lane by lane; not those that succeeded, which are too many to be counted every few seconds.
-- Every lane has its number of ready jobs, also where that is 0.
SELECT lane.queue, lane.task, counted.state, sum(counted.jobs)
  FROM (SELECT lane, 'ready' AS state, count(*) AS jobs FROM holdfast_ready GROUP BY lane
        UNION ALL SELECT lane, 'ready', 0 FROM holdfast_lane
        UNION ALL SELECT lane, 'scheduled', count(*) FROM holdfast_scheduled GROUP BY lane
        UNION ALL SELECT lane, 'running', count(*) FROM holdfast_running GROUP BY lane
        UNION ALL SELECT lane, state, count(*) FROM holdfast_finished WHERE state <> 'succeeded' GROUP BY lane, state) AS counted
  JOIN holdfast_lane AS lane ON lane.lane = counted.lane
 GROUP BY lane.queue, lane.task, counted.state
