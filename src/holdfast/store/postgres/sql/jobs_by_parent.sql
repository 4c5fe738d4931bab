SELECT found.*
  FROM (SELECT body.seq
          FROM holdfast.body AS body
          JOIN holdfast.job AS job ON job.seq = body.seq
          JOIN holdfast.lane AS lane ON lane.lane = job.lane
         WHERE body.parent = :parent::text
           AND (:cursor::bigint IS NULL OR body.seq * :direction::bigint > :cursor::bigint * :direction::bigint)
           AND (:state::text IS NULL OR job.state = :state::text)
           AND (:queue::text IS NULL OR lane.queue = :queue::text)
           AND (:task::text IS NULL OR lane.task = :task::text)
         ORDER BY body.seq * :direction::bigint LIMIT :limit::bigint) AS page
 CROSS JOIN LATERAL (SELECT * FROM holdfast.browse WHERE browse.seq = page.seq OFFSET 0) AS found
 ORDER BY found.seq * :direction::bigint
