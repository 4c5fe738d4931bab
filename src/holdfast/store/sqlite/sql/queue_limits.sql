SELECT declared, live FROM holdfast_queue WHERE name = :queue
