INSERT INTO holdfast_event (job, number, kind, at)
SELECT seq, 1, CASE state WHEN 'ready' THEN 'enqueued' ELSE 'scheduled' END, created_at
  FROM holdfast_job WHERE seq BETWEEN :first AND :last
