-- Whether these lanes have anything ready, but in queues that let nothing start before :closed, and whether anything is running
-- anywhere in them.
SELECT EXISTS (SELECT 1 FROM holdfast_lane AS lane
                WHERE lane.lane IN (SELECT value FROM json_each(:lanes))
                  AND EXISTS (SELECT 1 FROM holdfast_ready AS ready WHERE ready.lane = lane.lane)
                  AND NOT EXISTS (SELECT 1 FROM holdfast_queue AS queue
                                   WHERE lane.limited = 1 AND queue.name = lane.queue AND queue.closed_until >= :closed)),
       EXISTS (SELECT 1 FROM holdfast_running WHERE lane IN (SELECT value FROM json_each(:lanes)))
