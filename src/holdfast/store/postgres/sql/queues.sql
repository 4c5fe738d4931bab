SELECT lane.queue, lane.task, counted.state, coalesce(counted.jobs, 0)
  FROM {schema}.lane AS lane
  LEFT JOIN (SELECT lane, 'ready' AS state, count(*) AS jobs FROM {schema}.ready GROUP BY lane
             UNION ALL SELECT lane, 'scheduled', count(*) FROM {schema}.scheduled GROUP BY lane
             UNION ALL SELECT lane, 'running', count(*) FROM {schema}.running GROUP BY lane
             UNION ALL SELECT lane, state, count(*) FROM {schema}.finished GROUP BY lane, state) AS counted
    ON counted.lane = lane.lane
 ORDER BY lane.queue, lane.task, counted.state
