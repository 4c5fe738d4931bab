-- asked: {seq: how many events are known}. Those that have more by now; with nulls, those that are gone.
SELECT json_group_array(json_array(seq, event_count, state))
  FROM (SELECT CAST(asked.key AS INTEGER) AS seq, asked.value AS known,
               CASE WHEN spec.seq IS NOT NULL THEN coalesce(job_state.event_count, 1) END AS event_count,
               coalesce(job_state.state, CASE WHEN spec.scheduled_for IS NOT NULL THEN 'scheduled'
                                          WHEN spec.seq IS NOT NULL THEN 'ready' END) AS state
          FROM json_each(:asked) AS asked
          LEFT JOIN holdfast_job_spec AS spec ON spec.seq = CAST(asked.key AS INTEGER)
          LEFT JOIN holdfast_job_state AS job_state ON job_state.seq = spec.seq)
 WHERE event_count IS NOT known
