SELECT id FROM holdfast_worker WHERE boot <> :boot OR beat_tick + lease_min < :tick LIMIT 1
