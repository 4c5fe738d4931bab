SELECT * FROM holdfast.browse WHERE id = :id::text
