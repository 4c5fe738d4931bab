-- Which database this is, how far it has come (newest job:newest event), where its history begins, whether :since is a place in
-- it, and about how much came since, up to :upto if that is given.
SELECT (SELECT mark FROM holdfast_identity), now.seq || ':' || now.position, '0:0',
       :since IS NULL OR (since.seq <= now.seq AND since.position <= now.position),
       min(:near, CASE WHEN :since IS NULL THEN 0
                       WHEN :upto IS NULL THEN now.seq - since.seq + now.position - since.position
                       ELSE upto.seq - since.seq + upto.position - since.position END)
  FROM (SELECT max(value, coalesce((SELECT max(seq) FROM holdfast_job_spec), 0)) AS seq,
               coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event'), 0) AS position
          FROM holdfast_counter WHERE name = 'job') AS now,
       (SELECT CAST(:since AS INTEGER) AS seq, CAST(substr(:since, instr(:since, ':') + 1) AS INTEGER) AS position) AS since,
       (SELECT CAST(:upto AS INTEGER) AS seq, CAST(substr(:upto, instr(:upto, ':') + 1) AS INTEGER) AS position) AS upto
