-- Those that could not be used any more at that time already.
DELETE FROM holdfast_api_key WHERE revoked_at <= :before OR expires_at <= :before
