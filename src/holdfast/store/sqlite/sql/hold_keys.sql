-- keys: [key, seq, id]. Whatever held a key before does not any more.
INSERT INTO holdfast_key (key, seq, id, scope, until, failed, lane, created_at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), :scope, :until, :failed, :lane, :now
  FROM json_each(:keys)
 WHERE true
    ON CONFLICT (key) DO UPDATE
   SET seq = excluded.seq, id = excluded.id, scope = excluded.scope, until = excluded.until, failed = excluded.failed,
       ended = NULL, lane = excluded.lane, created_at = excluded.created_at
