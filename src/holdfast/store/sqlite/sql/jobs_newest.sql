SELECT * FROM holdfast_full_job
 WHERE (:cursor IS NULL OR seq < :cursor)
   AND (:state IS NULL OR state = :state)
   AND (:queue IS NULL OR queue = :queue)
   AND (:task IS NULL OR task = :task)
 ORDER BY seq DESC LIMIT :limit
