-- No row comes back if the id is taken, also by a transaction that we had to wait for.
INSERT INTO holdfast.body (
    seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
VALUES (:seq::bigint, :id::text, :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, :run_after::bigint,
        :arguments::text, :key::text, :tags::text, :meta::text, :parent::text, :callback::text)
    ON CONFLICT (id) DO NOTHING
RETURNING seq
