DELETE FROM holdfast_pass WHERE digest = :digest AND kind = :kind
RETURNING api_key, job, expires_at
