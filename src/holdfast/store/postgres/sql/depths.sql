-- How many jobs are where, lane by lane; not those that succeeded, which are too many to be counted every few seconds.
-- Every lane has its number of ready jobs, also where that is 0.
SELECT lane.queue, lane.task, counted.state, sum(counted.jobs)::bigint
  FROM (SELECT lane, 'ready' AS state, count(*) AS jobs FROM {schema}.ready GROUP BY lane
        UNION ALL SELECT lane, 'ready', 0 FROM {schema}.lane
        UNION ALL SELECT lane, 'scheduled', count(*) FROM {schema}.scheduled GROUP BY lane
        UNION ALL SELECT lane, 'running', count(*) FROM {schema}.running GROUP BY lane
        UNION ALL SELECT lane, state, count(*) FROM {schema}.finished WHERE state <> 'succeeded' GROUP BY lane, state) AS counted
  JOIN {schema}.lane AS lane ON lane.lane = counted.lane
 GROUP BY lane.queue, lane.task, counted.state
