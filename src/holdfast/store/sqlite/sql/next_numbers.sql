UPDATE holdfast_counter SET value = value + :count WHERE name = :name RETURNING value
