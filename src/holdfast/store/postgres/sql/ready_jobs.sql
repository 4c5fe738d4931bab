INSERT INTO holdfast.ready (lane, priority, seq)
SELECT lane, priority, seq FROM holdfast.body WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
