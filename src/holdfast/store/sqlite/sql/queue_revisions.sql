-- Of every queue that has settings: the number of the latest entry in its log.
SELECT name, coalesce((SELECT max(number) FROM holdfast_queue_change WHERE queue = name), 0) FROM holdfast_queue
