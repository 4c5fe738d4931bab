-- Keys that outlived their jobs, and whose time is over too.
DELETE FROM holdfast_key WHERE ended IS NOT NULL AND until IS NOT NULL AND until <= :now
