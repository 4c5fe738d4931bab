-- Those that could not be used any more at that time already.
DELETE FROM {schema}.api_key WHERE revoked_at <= :before::bigint OR expires_at <= :before::bigint
