-- Nothing to do: the file is locked.
SELECT 1
