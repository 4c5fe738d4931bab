UPDATE holdfast_api_key SET revoked_at = coalesce(revoked_at, :now) WHERE prefix = :prefix
