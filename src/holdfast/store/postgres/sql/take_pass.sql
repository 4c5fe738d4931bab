DELETE FROM {schema}.pass WHERE digest = :digest::text AND kind = :kind::text
RETURNING api_key, job, expires_at
