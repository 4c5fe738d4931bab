SELECT 1 FROM holdfast_worker WHERE id = :worker AND beat_tick >= :since
