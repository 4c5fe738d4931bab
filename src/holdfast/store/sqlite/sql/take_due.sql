DELETE FROM holdfast_scheduled
 WHERE (run_after, seq) IN (SELECT run_after, seq FROM holdfast_scheduled WHERE run_after <= :now ORDER BY run_after, seq LIMIT :limit)
