DELETE FROM {schema}.ready WHERE lane = :lane::integer AND priority = :priority::integer AND seq = :seq::bigint
