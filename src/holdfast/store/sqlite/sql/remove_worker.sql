DELETE FROM holdfast_worker WHERE id = :worker
