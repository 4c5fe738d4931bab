-- No row comes back if the id is taken, also by a transaction that we had to wait for.
INSERT INTO holdfast.body (
    seq, id, lane, priority, attempts_max, created_at, scheduled_for, arguments, key, tags, meta, parent, callback)
SELECT :seq::bigint, :id::text, :lane::integer, :priority::integer, :attempts_max::integer, :now::bigint, :run_after::bigint,
       :arguments::text, :key::text, :tags::text, :meta::text, :parent::text, :callback::text
 WHERE holdfast.number_of(:chosen::text) IS NULL -- where it is one of ours, nobody has it
    ON CONFLICT (id) WHERE NOT coalesce(chunked, false) DO NOTHING
RETURNING seq
