-- The job that is so many further on; no row: there are not so many.
SELECT seq FROM holdfast.body WHERE seq >= :job::bigint ORDER BY seq LIMIT 1 OFFSET :jobs::bigint
