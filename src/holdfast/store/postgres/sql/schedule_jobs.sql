INSERT INTO holdfast.scheduled (run_after, seq, lane)
SELECT run_after, seq, lane FROM holdfast.moved WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
