INSERT INTO holdfast.event (job, number, kind, at)
SELECT seq, event_count, 'promoted', :now::bigint
  FROM holdfast.moved WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
