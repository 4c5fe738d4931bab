-- Of many jobs; spans: [seq, after, up to]. Never the first event of one.
SELECT json_group_array(json_array(event.job, event.number, event.kind, event.at, event.data))
  FROM json_each(:spans) AS span
 CROSS JOIN holdfast_event AS event
 WHERE event.job = json_extract(span.value, '$[0]')
   AND event.number > json_extract(span.value, '$[1]') AND event.number <= json_extract(span.value, '$[2]')
