UPDATE {schema}.api_key SET revoked_at = coalesce(revoked_at, :now::bigint) WHERE prefix = :prefix::text
