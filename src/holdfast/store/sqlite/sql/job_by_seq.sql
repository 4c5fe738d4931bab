SELECT * FROM holdfast_full_job WHERE seq = :seq
