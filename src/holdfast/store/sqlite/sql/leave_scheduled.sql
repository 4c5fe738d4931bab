DELETE FROM holdfast_scheduled WHERE run_after = :run_after AND seq = :seq
