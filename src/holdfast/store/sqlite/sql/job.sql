SELECT * FROM holdfast_full_job WHERE id = :id
