SELECT lane FROM holdfast.lane WHERE queue = :queue::text AND task = :task::text
