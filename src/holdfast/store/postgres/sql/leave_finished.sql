DELETE FROM {schema}.finished WHERE finished_at = :finished_at::bigint AND seq = :seq::bigint
