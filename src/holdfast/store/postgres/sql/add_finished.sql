INSERT INTO holdfast.finished (finished_at, seq, state, lane)
SELECT :now::bigint, seq, state, lane FROM holdfast.moved WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
