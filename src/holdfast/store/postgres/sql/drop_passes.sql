DELETE FROM holdfast.pass WHERE api_key = :prefix::text
