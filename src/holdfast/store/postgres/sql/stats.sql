SELECT lane.task, counted.state, sum(counted.jobs)::bigint
  FROM (SELECT lane, 'ready' AS state, count(*) AS jobs FROM holdfast.ready GROUP BY lane
        UNION ALL SELECT lane, 'scheduled', count(*) FROM holdfast.scheduled GROUP BY lane
        UNION ALL SELECT lane, 'running', count(*) FROM holdfast.running GROUP BY lane
        UNION ALL SELECT lane, state, count(*) FROM holdfast.finished GROUP BY lane, state) AS counted
  JOIN holdfast.lane AS lane ON lane.lane = counted.lane
 GROUP BY lane.task, counted.state
 ORDER BY lane.task, counted.state
