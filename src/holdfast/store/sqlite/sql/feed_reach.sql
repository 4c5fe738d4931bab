-- The job that is so many further on; no row: there are not so many.
SELECT seq FROM holdfast_job_spec WHERE seq >= :job ORDER BY seq LIMIT 1 OFFSET :distance
