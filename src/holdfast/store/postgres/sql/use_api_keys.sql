-- used: {prefix: when}
UPDATE {schema}.api_key
   SET last_used_at = greatest(last_used_at, used.value::bigint)
  FROM jsonb_each_text(:used::jsonb) AS used
 WHERE prefix = used.key
