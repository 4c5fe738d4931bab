-- Keys that outlived their jobs, and whose time is over too.
DELETE FROM holdfast.key
 WHERE key IN (SELECT key FROM holdfast.key WHERE ended IS NOT NULL AND until IS NOT NULL AND until <= :now::bigint
                  FOR UPDATE SKIP LOCKED)
