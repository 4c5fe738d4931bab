INSERT INTO {schema}.pass (digest, kind, api_key, job, expires_at)
VALUES (:digest::text, :kind::text, :prefix::text, :job::text, :expires_at::bigint)
