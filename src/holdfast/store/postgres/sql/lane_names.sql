SELECT lane, queue, task FROM {schema}.lane
