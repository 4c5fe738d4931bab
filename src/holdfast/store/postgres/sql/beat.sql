UPDATE holdfast.worker SET beat_at = :now::bigint, beat_tick = :tick::bigint, boot = :boot::text WHERE id = :worker::bigint
RETURNING id
