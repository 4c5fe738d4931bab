SELECT lane.task, counted.state, sum(counted.jobs)
  FROM (SELECT lane, 'ready' AS state, count(*) AS jobs FROM holdfast_ready GROUP BY lane
        UNION ALL SELECT lane, 'scheduled', count(*) FROM holdfast_scheduled GROUP BY lane
        UNION ALL SELECT lane, 'running', count(*) FROM holdfast_running GROUP BY lane
        UNION ALL SELECT lane, state, count(*) FROM holdfast_finished GROUP BY lane, state) AS counted
  JOIN holdfast_lane AS lane ON lane.lane = counted.lane
 GROUP BY lane.task, counted.state
 ORDER BY lane.task, counted.state
