UPDATE holdfast_job SET state = 'ready', event_count = event_count + 1 WHERE seq IN (SELECT value FROM json_each(:seqs))
