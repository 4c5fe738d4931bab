SELECT lane.queue, lane.task, counted.state, coalesce(counted.jobs, 0)
  FROM holdfast.lane AS lane
  LEFT JOIN (SELECT lane, 'ready' AS state, count(*) AS jobs FROM holdfast.ready GROUP BY lane
             UNION ALL SELECT lane, 'scheduled', count(*) FROM holdfast.scheduled GROUP BY lane
             UNION ALL SELECT lane, 'running', count(*) FROM holdfast.running GROUP BY lane
             UNION ALL SELECT lane, state, count(*) FROM holdfast.finished GROUP BY lane, state) AS counted
    ON counted.lane = lane.lane
 ORDER BY lane.queue, lane.task, counted.state
