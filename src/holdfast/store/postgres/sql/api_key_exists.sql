-- One that was revoked or has expired counts too.
SELECT 1 FROM {schema}.api_key LIMIT 1
