-- Of many jobs; spans: [seq, after, up to]. Never the first event of one.
SELECT coalesce(json_agg(json_build_array(event.job, event.number, event.kind, event.at, event.data)), '[]')::text
  FROM jsonb_array_elements(:spans::jsonb) AS span (value)
 CROSS JOIN LATERAL (
       SELECT * FROM {schema}.event
        WHERE event.job = (span.value ->> 0)::bigint
          AND event.number > (span.value ->> 1)::integer AND event.number <= (span.value ->> 2)::integer
       OFFSET 0) AS event
