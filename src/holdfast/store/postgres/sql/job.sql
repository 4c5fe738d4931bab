SELECT * FROM holdfast.browse WHERE seq = (SELECT holdfast.number_of(:id::text))
