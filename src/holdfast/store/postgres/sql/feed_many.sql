-- The same from one job to another, by the jobs' numbers: where much has come, it would take long to put it in order.
WITH page AS MATERIALIZED (
    SELECT job, number
      FROM ((SELECT seq AS job, 1 AS number FROM {schema}.job_spec
              WHERE seq >= :job::bigint AND seq <= :last::bigint AND (seq > :job::bigint OR :number::integer < 1)
                AND NOT pg_visible_in_snapshot(tx, :since::text::pg_snapshot)
                AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
              ORDER BY seq LIMIT :limit::bigint)
            UNION ALL
            (SELECT job, number FROM {schema}.event
              WHERE (job, number) > (:job::bigint, :number::integer) AND job <= :last::bigint
                AND NOT pg_visible_in_snapshot(tx, :since::text::pg_snapshot)
                AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
              ORDER BY job, number LIMIT :limit::bigint)) AS fresh
     ORDER BY job, number LIMIT :limit::bigint
)
SELECT page.job, page.number, spec.id, event.kind, coalesce(event.at, spec.created_at), event.data, spec.scheduled_for
  FROM page
  LEFT JOIN LATERAL (SELECT id, created_at, scheduled_for FROM {schema}.job_spec WHERE job_spec.seq = page.job OFFSET 0) AS spec ON true
  LEFT JOIN LATERAL (SELECT kind, at, data FROM {schema}.event
                      WHERE event.job = page.job AND event.number = page.number OFFSET 0) AS event ON true
 ORDER BY page.job, page.number
