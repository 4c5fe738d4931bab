SELECT lane, queue, task FROM holdfast.lane
