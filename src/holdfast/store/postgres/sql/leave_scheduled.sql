DELETE FROM {schema}.scheduled WHERE run_after = :run_after::bigint AND seq = :seq::bigint
