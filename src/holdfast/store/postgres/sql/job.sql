SELECT * FROM {schema}.full_job WHERE id = :id::text
