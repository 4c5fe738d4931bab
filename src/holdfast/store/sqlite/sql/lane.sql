SELECT lane FROM holdfast_lane WHERE queue = :queue AND task = :task
