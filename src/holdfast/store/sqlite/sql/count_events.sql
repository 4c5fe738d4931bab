-- counts: [seq, how many]
UPDATE holdfast_moved SET event_count = event_count + json_extract(added.value, '$[1]')
  FROM json_each(:counts) AS added
 WHERE holdfast_moved.seq = json_extract(added.value, '$[0]')
