-- Takes the write lock and changes nothing: a transaction that read before others wrote learns here that it is too late.
UPDATE holdfast_counter SET value = value WHERE name = ''
