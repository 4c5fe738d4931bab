-- A run asked to stop its whole queue: from now on claims look at it.
UPDATE {schema}.lane SET limited = 1
 WHERE limited = 0 AND queue = (SELECT queue FROM {schema}.lane WHERE lane = :lane::integer)
