UPDATE holdfast_depth SET jobs = :count WHERE queue = :queue
