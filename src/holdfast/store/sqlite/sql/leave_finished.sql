DELETE FROM holdfast_finished WHERE finished_at = :finished_at AND seq = :seq
