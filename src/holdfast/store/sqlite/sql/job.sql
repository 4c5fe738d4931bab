SELECT * FROM holdfast_browse WHERE id = :id
