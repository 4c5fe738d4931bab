DELETE FROM holdfast_pass WHERE api_key = :prefix
