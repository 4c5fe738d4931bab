-- As `held`: nobody else can change anything while we write.
SELECT json_group_array(running.seq)
  FROM json_each(:leases) AS lease
  JOIN holdfast_running AS running ON running.seq = CAST(lease.key AS INTEGER) AND running.token = lease.value
