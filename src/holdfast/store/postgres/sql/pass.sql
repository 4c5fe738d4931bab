SELECT api_key, job, expires_at FROM {schema}.pass WHERE digest = :digest::text AND kind = :kind::text
