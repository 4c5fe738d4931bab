-- When the next scheduled job is due, or a queue that was closed for a time may open.
SELECT min(due)
  FROM (SELECT min(run_after) AS due FROM {schema}.scheduled
        UNION ALL SELECT min(closed_until) FROM {schema}.queue WHERE closed_until > :now::bigint) AS next
