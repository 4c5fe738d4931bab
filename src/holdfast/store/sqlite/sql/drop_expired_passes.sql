DELETE FROM holdfast_pass
 WHERE digest IN (SELECT digest FROM holdfast_pass WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit)
