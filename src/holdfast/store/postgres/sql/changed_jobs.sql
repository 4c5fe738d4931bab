-- asked: {seq: how many events are known}. Those that have more by now; with nulls, those that are gone.
SELECT coalesce(json_agg(json_build_array(asked.key::bigint, job.event_count, job.state)), '[]')::text
  FROM json_each_text(:asked::json) AS asked
  LEFT JOIN LATERAL (SELECT event_count, state FROM {schema}.job WHERE job.seq = asked.key::bigint OFFSET 0) AS job ON true
 WHERE job.event_count IS DISTINCT FROM asked.value::integer
