-- last: if given, only if the beat before was that one.
UPDATE {schema}.worker SET beat_at = :now::bigint, beat_tick = :tick::bigint, boot = :boot::text
 WHERE id = :worker::bigint AND (:last::bigint IS NULL OR beat_tick = :last::bigint)
RETURNING id
