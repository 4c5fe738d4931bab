-- queues: [name, memory, closed_until]. If the clock is set back, `closed_until` means nothing.
UPDATE holdfast_queue
   SET memory = json_extract(given.value, '$[1]'), closed_until = json_extract(given.value, '$[2]'), kept_at = :now
  FROM json_each(:queues) AS given
 WHERE name = json_extract(given.value, '$[0]')
