-- keys: [key, seq, id]
INSERT INTO holdfast_key (key, seq, id, scope, until, failed, lane, created_at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), :scope, :until, :failed, :lane, :now
  FROM json_each(:keys)
 WHERE true
    ON CONFLICT (key) DO NOTHING
