-- Keys that outlived their jobs, and whose time is over too.
DELETE FROM {schema}.key
 WHERE key = ANY (ARRAY(SELECT key FROM {schema}.key WHERE ended IS NOT NULL AND until IS NOT NULL AND until <= :now::bigint
                         ORDER BY until FOR UPDATE SKIP LOCKED))
