-- The same from one job to another, by the jobs' numbers: where much has come, it would take long to put it in order.
WITH page AS MATERIALIZED (
    SELECT job, number
      FROM (SELECT * FROM (SELECT seq AS job, 1 AS number FROM holdfast_job_spec
                            WHERE seq >= :job AND seq <= :last AND (seq > :job OR :number < 1)
                              AND seq > CAST(:since AS INTEGER) AND seq <= CAST(:upto AS INTEGER)
                            ORDER BY seq LIMIT :limit)
            UNION ALL
            SELECT * FROM (SELECT job, number FROM holdfast_event
                            WHERE (job, number) > (:job, :number) AND job <= :last
                              AND position > CAST(substr(:since, instr(:since, ':') + 1) AS INTEGER)
                              AND position <= CAST(substr(:upto, instr(:upto, ':') + 1) AS INTEGER)
                            ORDER BY job, number LIMIT :limit))
     ORDER BY job, number LIMIT :limit
)
SELECT page.job, page.number, spec.id, event.kind, coalesce(event.at, spec.created_at), event.data, spec.scheduled_for
  FROM page
  LEFT JOIN holdfast_job_spec AS spec ON spec.seq = page.job
  LEFT JOIN holdfast_event AS event ON event.job = page.job AND event.number = page.number
 ORDER BY page.job, page.number
