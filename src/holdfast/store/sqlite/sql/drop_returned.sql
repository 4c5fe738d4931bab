DELETE FROM holdfast_returned WHERE queue = :queue
