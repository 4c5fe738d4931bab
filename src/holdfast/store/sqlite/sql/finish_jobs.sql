-- Which of these leases, {seq: token}, are still the current claim. Not the whole of it: end_leases, succeed_jobs, record_succeeded and
-- add_finished do the rest.
SELECT json_group_array(running.seq), 0
  FROM json_each(:leases) AS lease
  JOIN holdfast_running AS running ON running.seq = CAST(lease.key AS INTEGER) AND running.token = lease.value
