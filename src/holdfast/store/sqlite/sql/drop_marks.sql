DELETE FROM holdfast_mark WHERE id IN (SELECT value FROM json_each(:ids))
