-- keys: [key, seq, id, scope, until, failed, lane]
INSERT INTO holdfast_key (key, seq, id, scope, until, failed, lane, created_at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]'), :now
  FROM json_each(:keys)
 WHERE true
    ON CONFLICT (key) DO NOTHING
