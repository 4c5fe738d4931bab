-- last: if given, only if the beat before was that one. since: only if it was not earlier, as it is in a database that was restored.
UPDATE holdfast_worker SET beat_at = :now, beat_tick = :tick, boot = :boot
 WHERE id = :worker AND (:last IS NULL OR beat_tick = :last) AND beat_tick >= :since
RETURNING id
