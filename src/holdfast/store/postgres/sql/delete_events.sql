DELETE FROM holdfast.event WHERE job = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
