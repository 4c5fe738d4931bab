SELECT * FROM {schema}.full_job WHERE seq = :seq::bigint
