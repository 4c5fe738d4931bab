SELECT id FROM {schema}.worker WHERE boot <> :boot::text OR beat_tick + lease_min < :tick::bigint LIMIT 1
