DELETE FROM holdfast.pass
 WHERE digest IN (SELECT digest FROM holdfast.pass WHERE expires_at <= :now::bigint ORDER BY expires_at LIMIT :limit::integer
                     FOR UPDATE SKIP LOCKED)
