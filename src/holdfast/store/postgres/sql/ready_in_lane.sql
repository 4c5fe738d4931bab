-- Those that nobody else is taking at this moment, behind the worker's place in the lane: rows that are deleted but not yet
-- cleared away, as under somebody's long transaction, are not walked over again with every claim.
SELECT '[' || coalesce(string_agg('[' || priority || ',' || seq || ',"' || place || '"]', ','), '') || ']'
  FROM (SELECT priority, seq, ctid::text AS place FROM holdfast.ready
         WHERE (lane, priority, seq) > (:lane::integer, :after_priority::integer, :after_seq::bigint)
           AND (lane, priority, seq) <= (:lane::integer, :last_priority::integer, :last_seq::bigint)
         ORDER BY lane, priority, seq LIMIT :limit::bigint FOR UPDATE SKIP LOCKED) AS offered
