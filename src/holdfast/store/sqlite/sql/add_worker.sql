INSERT INTO holdfast_worker (id, name, host, pid, by_hand, started_at, beat_at, beat_tick, boot, lease_min, slots,
                             queues)
VALUES (:id, :name, :host, :pid, :by_hand, :now, :now, :tick, :boot, :lease_min, :slots, :queues)
