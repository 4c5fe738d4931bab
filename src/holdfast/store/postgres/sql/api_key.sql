SELECT prefix, name, digest, scope, queues, created_at, expires_at, last_used_at, revoked_at
  FROM {schema}.api_key WHERE prefix = :prefix::text
