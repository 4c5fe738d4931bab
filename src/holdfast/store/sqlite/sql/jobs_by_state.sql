-- For the states that have a narrow table of their own, which is far smaller than all of history. direction: 1 oldest, -1 newest.
SELECT * FROM holdfast_full_job
 WHERE seq IN (SELECT seq FROM holdfast_ready WHERE :state = 'ready'
               UNION ALL SELECT seq FROM holdfast_scheduled WHERE :state = 'scheduled'
               UNION ALL SELECT seq FROM holdfast_running WHERE :state = 'running'
               UNION ALL SELECT seq FROM holdfast_finished WHERE state = :state AND state <> 'succeeded')
   AND (:cursor IS NULL OR seq * :direction > :cursor * :direction)
   AND (:queue IS NULL OR queue = :queue)
   AND (:task IS NULL OR task = :task)
 ORDER BY seq * :direction LIMIT :limit
