-- Which of these (seq, token) pairs are still the current claim.
SELECT json_group_array(running.seq)
  FROM json_each(:leases) AS lease
  JOIN holdfast_running AS running
    ON running.seq = json_extract(lease.value, '$[0]') AND running.token = json_extract(lease.value, '$[1]')
