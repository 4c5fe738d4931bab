-- Whether these lanes have anything ready, and whether anything is running anywhere in them.
SELECT EXISTS (SELECT 1 FROM holdfast_ready WHERE lane IN (SELECT value FROM json_each(:lanes))),
       EXISTS (SELECT 1 FROM holdfast_running WHERE lane IN (SELECT value FROM json_each(:lanes)))
