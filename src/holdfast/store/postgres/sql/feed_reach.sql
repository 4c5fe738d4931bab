-- The job that is so many further on; no row: there are not so many.
SELECT seq FROM {schema}.job_spec WHERE seq >= :job::bigint ORDER BY seq LIMIT 1 OFFSET :distance::bigint
