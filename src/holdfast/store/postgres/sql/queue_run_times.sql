-- By queue: how many jobs succeeded among the last that ended of all, and the microseconds that their code ran.
SELECT lane.queue, count(*), sum(ran.finished_at - ran.started_at)::bigint
  FROM (SELECT seq, lane, state FROM {schema}.finished ORDER BY finished_at DESC, seq DESC LIMIT 1000) AS ended
 CROSS JOIN LATERAL (SELECT started_at, finished_at FROM {schema}.job_state WHERE job_state.seq = ended.seq OFFSET 0) AS ran
 CROSS JOIN LATERAL (SELECT queue FROM {schema}.lane WHERE lane.lane = ended.lane OFFSET 0) AS lane
 WHERE ended.state = 'succeeded' AND ran.started_at IS NOT NULL AND ran.finished_at IS NOT NULL
 GROUP BY lane.queue
