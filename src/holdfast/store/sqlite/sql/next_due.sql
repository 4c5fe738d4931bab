SELECT min(run_after) FROM holdfast_scheduled
