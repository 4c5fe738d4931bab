SELECT min(run_after) FROM holdfast.scheduled
