-- One that was revoked or has expired counts too.
SELECT 1 FROM holdfast.api_key LIMIT 1
