-- pairs: [queue, task]. The lanes that exist; a pair that has none is left out.
SELECT lane.lane, lane.queue, lane.task, lane.bounded
  FROM json_each(:pairs) AS pair
 CROSS JOIN holdfast_lane AS lane ON lane.queue = json_extract(pair.value, '$[0]') AND lane.task = json_extract(pair.value, '$[1]')
