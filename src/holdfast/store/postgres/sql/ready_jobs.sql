INSERT INTO holdfast.ready (lane, priority, seq)
SELECT lane, priority, seq FROM holdfast.job WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
