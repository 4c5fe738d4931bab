-- asked: {seq: how many events are known}. Those that have more by now; with nulls, those that are gone.
SELECT json_group_array(json_array(CAST(asked.key AS INTEGER), job.event_count, job.state))
  FROM json_each(:asked) AS asked
  LEFT JOIN holdfast_job AS job ON job.seq = CAST(asked.key AS INTEGER)
 WHERE job.event_count IS NOT asked.value
