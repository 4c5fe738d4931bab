-- A run asked to stop its whole queue: from now on claims look at it.
UPDATE holdfast_lane SET limited = 1
 WHERE limited = 0 AND queue = (SELECT queue FROM holdfast_lane WHERE lane = :lane)
