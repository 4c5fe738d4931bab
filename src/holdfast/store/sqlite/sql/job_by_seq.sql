SELECT * FROM holdfast_browse WHERE seq = :seq
