-- For the states that have a narrow table of their own, which is far smaller than all of history. direction: 1 oldest, -1 newest.
SELECT found.*
  FROM (SELECT narrow.seq
          FROM (SELECT seq, lane FROM {schema}.ready WHERE :state::text = 'ready'
                UNION ALL SELECT seq, lane FROM {schema}.scheduled WHERE :state::text = 'scheduled'
                UNION ALL SELECT seq, lane FROM {schema}.running WHERE :state::text = 'running'
                UNION ALL SELECT seq, lane FROM {schema}.finished WHERE state = :state::text AND state <> 'succeeded') AS narrow
         CROSS JOIN LATERAL (SELECT queue, task FROM {schema}.lane WHERE lane.lane = narrow.lane OFFSET 0) AS lane
         WHERE (:cursor::bigint IS NULL OR narrow.seq * :direction::bigint > :cursor::bigint * :direction::bigint)
           AND (:queue::text IS NULL OR lane.queue = :queue::text)
           AND (:task::text IS NULL OR lane.task = :task::text)
         ORDER BY narrow.seq * :direction::bigint LIMIT :limit::bigint) AS page
 CROSS JOIN LATERAL (SELECT * FROM {schema}.full_job WHERE full_job.seq = page.seq OFFSET 0) AS found
 ORDER BY found.seq * :direction::bigint
