INSERT INTO {schema}.event (job, number, kind, at)
SELECT seq, event_count, 'promoted', :now::bigint
  FROM {schema}.job_state WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
