-- progress: [seq, progress or null to keep, meter or null to keep]
UPDATE holdfast_moved
   SET progress = coalesce(json_extract(told.value, '$[1]'), progress), meter = coalesce(json_extract(told.value, '$[2]'), meter)
  FROM json_each(:told) AS told
 WHERE holdfast_moved.seq = json_extract(told.value, '$[0]')
