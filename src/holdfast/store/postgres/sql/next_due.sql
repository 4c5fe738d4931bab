SELECT min(run_after) FROM {schema}.scheduled
