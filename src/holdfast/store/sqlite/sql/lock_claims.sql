-- leases: {seq: token}. Which of them are the current claim, and which are locked elsewhere: none, for there is one writer.
SELECT json_group_array(running.seq), '[]'
  FROM json_each(:leases) AS lease
  JOIN holdfast_running AS running ON running.seq = CAST(lease.key AS INTEGER) AND running.token = lease.value
   AND (:worker IS NULL OR running.worker = :worker)
