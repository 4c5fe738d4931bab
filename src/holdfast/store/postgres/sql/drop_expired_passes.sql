DELETE FROM {schema}.pass
 WHERE digest IN (SELECT digest FROM {schema}.pass WHERE expires_at <= :now::bigint ORDER BY expires_at LIMIT :limit::integer
                     FOR UPDATE SKIP LOCKED)
