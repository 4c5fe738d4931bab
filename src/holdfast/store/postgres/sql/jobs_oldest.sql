SELECT found.*
  FROM (SELECT job.seq
          FROM {schema}.job AS job
         CROSS JOIN LATERAL (SELECT queue, task FROM {schema}.lane WHERE lane.lane = job.lane OFFSET 0) AS lane
         WHERE job.seq > coalesce(:cursor::bigint, 0)
           AND (:state::text IS NULL OR job.state = :state::text)
           AND (:queue::text IS NULL OR lane.queue = :queue::text)
           AND (:task::text IS NULL OR lane.task = :task::text)
         ORDER BY job.seq LIMIT :limit::bigint) AS page
 CROSS JOIN LATERAL (SELECT * FROM {schema}.full_job WHERE full_job.seq = page.seq OFFSET 0) AS found
 ORDER BY found.seq
