DELETE FROM {schema}.notice WHERE worker = :worker::bigint
