DELETE FROM holdfast.notice WHERE worker = :worker::bigint
