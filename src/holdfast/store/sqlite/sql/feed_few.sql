-- What came between two places (newest job:newest event), job by job: the little there is, by its place.
WITH page AS MATERIALIZED (
    SELECT job, number
      FROM (SELECT seq AS job, 1 AS number FROM holdfast_job_spec
             WHERE seq > CAST(:since AS INTEGER) AND seq <= CAST(:upto AS INTEGER)
            UNION ALL
            SELECT job, number FROM holdfast_event
             WHERE position > CAST(substr(:since, instr(:since, ':') + 1) AS INTEGER)
               AND position <= CAST(substr(:upto, instr(:upto, ':') + 1) AS INTEGER))
     WHERE (job, number) > (:job, :number)
     ORDER BY job, number LIMIT :limit
)
SELECT page.job, page.number, spec.id, event.kind, coalesce(event.at, spec.created_at), event.data, spec.scheduled_for
  FROM page
  LEFT JOIN holdfast_job_spec AS spec ON spec.seq = page.job
  LEFT JOIN holdfast_event AS event ON event.job = page.job AND event.number = page.number
 ORDER BY page.job, page.number
