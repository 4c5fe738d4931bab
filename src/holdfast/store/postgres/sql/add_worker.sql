INSERT INTO {schema}.worker (id, name, host, pid, by_hand, started_at, beat_at, beat_tick, boot, lease_min, slots, queues)
VALUES (:id::bigint, :name::text, :host::text, :pid::bigint, :by_hand::integer, :now::bigint, :now::bigint, :tick::bigint,
        :boot::text, :lease_min::bigint, :slots::integer, :queues::text)
