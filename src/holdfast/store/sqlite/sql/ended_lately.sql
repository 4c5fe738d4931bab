-- When the last jobs ended, of this queue among the newest of all: how fast it drains. The first row is the latest.
SELECT finished.finished_at
  FROM (SELECT finished_at, lane FROM holdfast_finished ORDER BY finished_at DESC, seq DESC LIMIT 1000) AS finished
 CROSS JOIN holdfast_lane AS lane ON lane.lane = finished.lane
 WHERE lane.queue = :queue
 ORDER BY finished.finished_at DESC LIMIT 100
