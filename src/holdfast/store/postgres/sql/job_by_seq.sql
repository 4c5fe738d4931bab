SELECT * FROM holdfast.browse WHERE seq = :seq::bigint
