SELECT api_key, job, expires_at FROM holdfast_pass WHERE digest = :digest AND kind = :kind
