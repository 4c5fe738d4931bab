-- Whether any worker may hold a lease that has run out: see expired_claims.
SELECT id FROM holdfast_worker
 WHERE CASE WHEN boot = :boot AND beat_tick <= :tick THEN beat_tick + lease_min < :tick
            ELSE beat_at NOT BETWEEN max(:booted + 1, :now - lease_min) AND :now END
 LIMIT 1
