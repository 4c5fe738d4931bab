SELECT * FROM holdfast_full_job WHERE id IN (SELECT value FROM json_each(:ids))
