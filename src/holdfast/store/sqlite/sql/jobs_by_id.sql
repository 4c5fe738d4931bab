SELECT * FROM holdfast_browse WHERE id IN (SELECT value FROM json_each(:ids))
