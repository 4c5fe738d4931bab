UPDATE holdfast_worker SET beat_at = :now, beat_tick = :tick, boot = :boot WHERE id = :worker RETURNING id
