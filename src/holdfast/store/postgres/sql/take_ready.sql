-- Exactly those that were locked when they were looked at; :priorities are theirs, in the same order.
DELETE FROM holdfast.ready AS ready
 USING unnest((SELECT translate(:priorities::text, '[]', '{}'))::integer[], (SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
       AS taken (priority, seq)
 WHERE ready.lane = :lane::integer AND ready.priority = taken.priority AND ready.seq = taken.seq
