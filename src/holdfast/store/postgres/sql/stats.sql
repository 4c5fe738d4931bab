SELECT lane.task, counted.state, sum(counted.jobs)::bigint
  FROM (SELECT lane, 'ready' AS state, count(*) AS jobs FROM {schema}.ready GROUP BY lane
        UNION ALL SELECT lane, 'scheduled', count(*) FROM {schema}.scheduled GROUP BY lane
        UNION ALL SELECT lane, 'running', count(*) FROM {schema}.running GROUP BY lane
        UNION ALL SELECT lane, state, count(*) FROM {schema}.finished GROUP BY lane, state) AS counted
  JOIN {schema}.lane AS lane ON lane.lane = counted.lane
 GROUP BY lane.task, counted.state
 ORDER BY lane.task, counted.state
