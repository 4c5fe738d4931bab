-- Of every queue that has settings: the number of the latest entry in its log.
SELECT name, coalesce((SELECT max(number) FROM {schema}.queue_change WHERE queue = name), 0) FROM {schema}.queue
