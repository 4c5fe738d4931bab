SELECT lane.queue, lane.task, counted.state, coalesce(counted.jobs, 0)
  FROM holdfast_lane AS lane
  LEFT JOIN (SELECT lane, 'ready' AS state, count(*) AS jobs FROM holdfast_ready GROUP BY lane
             UNION ALL SELECT lane, 'scheduled', count(*) FROM holdfast_scheduled GROUP BY lane
             UNION ALL SELECT lane, 'running', count(*) FROM holdfast_running GROUP BY lane
             UNION ALL SELECT lane, state, count(*) FROM holdfast_finished GROUP BY lane, state) AS counted
    ON counted.lane = lane.lane
 ORDER BY lane.queue, lane.task, counted.state
