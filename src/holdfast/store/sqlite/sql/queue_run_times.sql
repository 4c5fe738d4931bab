-- By queue: how many jobs succeeded among the last that ended of all, and the microseconds that their code ran.
SELECT lane.queue, count(*), sum(state.finished_at - state.started_at)
  FROM (SELECT seq, lane, state FROM holdfast_finished ORDER BY finished_at DESC, seq DESC LIMIT 1000) AS ended
 CROSS JOIN holdfast_job_state AS state ON state.seq = ended.seq
 CROSS JOIN holdfast_lane AS lane ON lane.lane = ended.lane
 WHERE ended.state = 'succeeded' AND state.started_at IS NOT NULL AND state.finished_at IS NOT NULL
 GROUP BY lane.queue
