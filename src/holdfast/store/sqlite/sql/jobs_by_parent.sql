SELECT * FROM holdfast_full_job
 WHERE seq IN (SELECT seq FROM holdfast_job_spec WHERE parent = :parent)
   AND (:cursor IS NULL OR seq * :direction > :cursor * :direction)
   AND (:state IS NULL OR state = :state)
   AND (:queue IS NULL OR queue = :queue)
   AND (:task IS NULL OR task = :task)
 ORDER BY seq * :direction LIMIT :limit
