-- Which database this is, how far it has come (a snapshot), where its history begins, whether :since is a place in it, and about
-- how much came since, up to :upto if that is given.
SELECT (SELECT mark FROM {schema}.identity), now.snapshot::text, '1:1:',
       :since::text IS NULL OR pg_snapshot_xmax(:since::text::pg_snapshot) <= pg_snapshot_xmax(now.snapshot),
       (SELECT count(*) FROM (SELECT 1 FROM {schema}.job_spec
                               WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot)
                                 AND tx < pg_snapshot_xmax(coalesce(:upto::text::pg_snapshot, now.snapshot))
                               LIMIT :near::bigint) AS jobs)
           + (SELECT count(*) FROM (SELECT 1 FROM {schema}.event
                                     WHERE tx >= pg_snapshot_xmax(:since::text::pg_snapshot)
                                       AND tx < pg_snapshot_xmax(coalesce(:upto::text::pg_snapshot, now.snapshot))
                                     LIMIT :near::bigint) AS events)
  FROM (SELECT pg_current_snapshot() AS snapshot) AS now
