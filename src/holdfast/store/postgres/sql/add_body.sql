-- No row comes back if the id is taken, also by a transaction that we had to wait for.
INSERT INTO holdfast.body (seq, id, arguments, key, tags, meta, parent, callback, scheduled_for)
VALUES (:seq::bigint, :id::text, :arguments::text, :key::text, :tags::text, :meta::text, :parent::text,
        :callback::text, :run_after::bigint)
    ON CONFLICT (id) DO NOTHING
RETURNING seq
