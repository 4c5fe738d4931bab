-- What was committed between two snapshots, job by job: the little there is, by the transactions that wrote it.
WITH page AS MATERIALIZED (
    SELECT job, number
      FROM (SELECT seq AS job, 1 AS number FROM {schema}.job_spec
             WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
            UNION ALL
            SELECT seq, 1 FROM {schema}.job_spec
             WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(:since::text::pg_snapshot)))
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
            UNION ALL
            SELECT job, number FROM {schema}.event
             WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)
            UNION ALL
            SELECT job, number FROM {schema}.event
             WHERE tx = ANY (ARRAY(SELECT pg_snapshot_xip(:since::text::pg_snapshot)))
               AND pg_visible_in_snapshot(tx, :upto::text::pg_snapshot)) AS fresh
     WHERE (job, number) > (:job::bigint, :number::integer)
     ORDER BY job, number LIMIT :limit::bigint
)
SELECT page.job, page.number, spec.id, event.kind, coalesce(event.at, spec.created_at), event.data, spec.scheduled_for
  FROM page
  LEFT JOIN LATERAL (SELECT id, created_at, scheduled_for FROM {schema}.job_spec WHERE job_spec.seq = page.job OFFSET 0) AS spec ON true
  LEFT JOIN LATERAL (SELECT kind, at, data FROM {schema}.event
                      WHERE event.job = page.job AND event.number = page.number OFFSET 0) AS event ON true
 ORDER BY page.job, page.number
