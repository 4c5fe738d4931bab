-- When the last jobs ended, of this queue among the newest of all: how fast it drains. The first row is the latest.
SELECT finished.finished_at
  FROM (SELECT finished_at, lane FROM {schema}.finished ORDER BY finished_at DESC, seq DESC LIMIT 1000) AS finished
 CROSS JOIN LATERAL (SELECT queue FROM {schema}.lane WHERE lane.lane = finished.lane OFFSET 0) AS lane
 WHERE lane.queue = :queue::text
 ORDER BY finished.finished_at DESC LIMIT 100
