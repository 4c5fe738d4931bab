-- The oldest of them, as many as have :events_max events together, but at least one: a batch must not hold the lock for long.
SELECT json_group_array(seq)
  FROM (SELECT old.seq, row_number() OVER by_age AS place, sum(job.event_count) OVER by_age AS events
          FROM (SELECT seq, finished_at FROM holdfast_finished WHERE finished_at < :before ORDER BY finished_at, seq LIMIT :limit) AS old
          JOIN holdfast_job_state AS job ON job.seq = old.seq
        WINDOW by_age AS (ORDER BY old.finished_at, old.seq))
 WHERE place = 1 OR events <= :events_max
