-- The first job of which something came between two snapshots. (MATERIALIZED keeps it from being looked for job by job.)
WITH fresh AS MATERIALIZED (
    SELECT seq AS job FROM {schema}.job_spec
     WHERE tx >= pg_snapshot_xmin(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
    UNION ALL
    SELECT job FROM {schema}.event
     WHERE tx >= pg_snapshot_xmin(:since::text::pg_snapshot) AND tx < pg_snapshot_xmax(:upto::text::pg_snapshot)
)
SELECT coalesce(min(job), :job_max::bigint) FROM fresh
