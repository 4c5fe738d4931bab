-- Whether these lanes have anything ready, but in queues that let nothing start before :closed, and whether anything is running
-- anywhere in them.
SELECT EXISTS (SELECT 1 FROM unnest(translate(:lanes::text, '[]', '{}')::integer[]) AS asked (lane)
                CROSS JOIN LATERAL (SELECT 1 FROM {schema}.ready WHERE ready.lane = asked.lane LIMIT 1) AS first
                JOIN {schema}.lane AS lane ON lane.lane = asked.lane
                WHERE NOT EXISTS (SELECT 1 FROM {schema}.queue AS queue
                                   WHERE lane.limited = 1 AND queue.name = lane.queue AND queue.closed_until >= :closed::bigint)),
       EXISTS (SELECT 1 FROM {schema}.running WHERE lane = ANY ((SELECT translate(:lanes::text, '[]', '{}'))::integer[]))
