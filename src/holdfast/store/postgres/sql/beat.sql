-- last: if given, only if the beat before was that one. since: only if it was not earlier, as it is in a database that was restored.
UPDATE {schema}.worker SET beat_at = :now::bigint, beat_tick = :tick::bigint, boot = :boot::text
 WHERE id = :worker::bigint AND (:last::bigint IS NULL OR beat_tick = :last::bigint) AND beat_tick >= :since::bigint
RETURNING id
