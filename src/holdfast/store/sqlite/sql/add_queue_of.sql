INSERT INTO holdfast_queue (name, changed_at) SELECT queue, :now FROM holdfast_lane WHERE lane = :lane
    ON CONFLICT (name) DO NOTHING
