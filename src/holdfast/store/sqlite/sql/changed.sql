-- asked: {seq: how many events are known}. Those that have more by now; with nulls, those that are gone.
SELECT json_group_array(json_array(seq, event_count, state))
  FROM (SELECT CAST(asked.key AS INTEGER) AS seq, asked.value AS known,
               CASE WHEN body.seq IS NOT NULL THEN coalesce(moved.event_count, 1) END AS event_count,
               coalesce(moved.state, CASE WHEN body.scheduled_for IS NOT NULL THEN 'scheduled'
                                          WHEN body.seq IS NOT NULL THEN 'ready' END) AS state
          FROM json_each(:asked) AS asked
          LEFT JOIN holdfast_body AS body ON body.seq = CAST(asked.key AS INTEGER)
          LEFT JOIN holdfast_moved AS moved ON moved.seq = body.seq)
 WHERE event_count IS NOT known
