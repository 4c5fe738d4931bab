-- :event_prefix is JSON without its end, {"worker":"…","attempt": — which is cheaper than building an object for every row.
INSERT INTO holdfast_event (job, number, kind, at, data)
SELECT seq, event_count, 'started', :now, :event_prefix || attempt || '}'
  FROM holdfast_job_state WHERE seq IN (SELECT value FROM json_each(:seqs))
