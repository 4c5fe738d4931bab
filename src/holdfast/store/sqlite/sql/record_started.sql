INSERT INTO holdfast_event (job, number, kind, at, data)
SELECT seq, event_count, 'started', :now, json_object('attempt', attempt, 'worker', :name)
  FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(:seqs))
