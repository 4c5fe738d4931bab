INSERT INTO holdfast_pass (digest, kind, api_key, job, expires_at)
VALUES (:digest, :kind, :prefix, :job, :expires_at)
