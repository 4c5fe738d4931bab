INSERT INTO holdfast_event (job, number, kind, at)
SELECT seq, event_count, 'promoted', :now FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs))
