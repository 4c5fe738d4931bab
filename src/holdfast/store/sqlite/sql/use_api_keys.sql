-- used: {prefix: when}
UPDATE holdfast_api_key
   SET last_used_at = max(coalesce(last_used_at, 0), (SELECT used.value FROM json_each(:used) AS used WHERE used.key = prefix))
 WHERE prefix IN (SELECT used.key FROM json_each(:used) AS used)
