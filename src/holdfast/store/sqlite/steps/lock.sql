-- Takes the write lock and changes nothing: a transaction that read before others wrote fails here.
UPDATE holdfast_counter SET value = value WHERE name = ''
