DELETE FROM holdfast_notice WHERE worker = :worker
