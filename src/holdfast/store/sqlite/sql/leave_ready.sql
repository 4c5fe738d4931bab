DELETE FROM holdfast_ready WHERE lane = :lane AND priority = :priority AND seq = :seq
