DELETE FROM holdfast.worker WHERE id = :worker::bigint
