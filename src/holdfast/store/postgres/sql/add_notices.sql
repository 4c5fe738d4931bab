INSERT INTO {schema}.notice (worker, seq, token, kind)
SELECT worker, seq, token, :kind::text
  FROM {schema}.running WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    ON CONFLICT (worker, seq, token) DO UPDATE SET kind = excluded.kind
