DELETE FROM {schema}.pass WHERE api_key = :prefix::text
