-- The first :limit jobs of a lane behind one place in its order, up to another, and where their rows are: locked, without those that
-- another transaction has locked. Rows before the first place are not visited: deleted ones stay there under a long transaction.
SELECT '[' || coalesce(string_agg('[' || priority || ',' || seq || ',"' || place || '"]', ','), '') || ']'
  FROM (SELECT priority, seq, ctid::text AS place FROM {schema}.ready
         WHERE (lane, priority, seq) > (:lane::integer, :after_priority::integer, :after_seq::bigint)
           AND (lane, priority, seq) <= (:lane::integer, :last_priority::integer, :last_seq::bigint)
         ORDER BY lane, priority, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED) AS offered
