UPDATE holdfast.job SET state = 'ready', event_count = event_count + 1
 WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
