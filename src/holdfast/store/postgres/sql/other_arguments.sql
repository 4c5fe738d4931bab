-- jobs: [seq, arguments]. Which of these jobs were enqueued with other arguments.
SELECT coalesce(json_agg(spec.seq), '[]')::text
  FROM jsonb_array_elements(:jobs::jsonb) AS given
 CROSS JOIN LATERAL (SELECT seq, arguments FROM {schema}.job_spec WHERE seq = (given ->> 0)::bigint OFFSET 0) AS spec
 WHERE spec.arguments <> given ->> 1
