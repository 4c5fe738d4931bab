DELETE FROM holdfast_finished
 WHERE (finished_at, seq) IN (SELECT finished_at, seq FROM holdfast_finished WHERE finished_at < :before ORDER BY finished_at, seq LIMIT :limit)
