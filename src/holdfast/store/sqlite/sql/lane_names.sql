SELECT lane, queue, task FROM holdfast_lane
