-- How many rows the last statement wrote.
SELECT changes()
