-- last: if given, only if the beat before was that one.
UPDATE holdfast_worker SET beat_at = :now, beat_tick = :tick, boot = :boot
 WHERE id = :worker AND (:last IS NULL OR beat_tick = :last)
RETURNING id
