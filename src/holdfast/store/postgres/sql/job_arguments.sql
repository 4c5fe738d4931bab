SELECT arguments FROM holdfast.body WHERE seq = :seq::bigint
