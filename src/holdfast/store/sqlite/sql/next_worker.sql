UPDATE holdfast_counter SET value = value + 1 WHERE name = 'worker' RETURNING value
