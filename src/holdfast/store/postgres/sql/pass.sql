SELECT api_key, job, expires_at FROM holdfast.pass WHERE digest = :digest::text AND kind = :kind::text
