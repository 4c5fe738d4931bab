-- Whether these lanes have anything ready, and whether anything is running anywhere in them.
SELECT EXISTS (SELECT 1 FROM unnest(translate(:lanes::text, '[]', '{}')::integer[]) AS asked (lane)
                CROSS JOIN LATERAL (SELECT 1 FROM {schema}.ready WHERE ready.lane = asked.lane LIMIT 1) AS first),
       EXISTS (SELECT 1 FROM {schema}.running WHERE lane = ANY ((SELECT translate(:lanes::text, '[]', '{}'))::integer[]))
