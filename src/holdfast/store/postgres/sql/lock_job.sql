-- The row of the narrow table that the job is in: nobody else can move the job then. None comes back if somebody just did.
WITH seen AS MATERIALIZED (
    SELECT seq, state, lane, priority, run_after, finished_at FROM holdfast.job WHERE id = :id::text
),
ready AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen JOIN holdfast.ready AS narrow ON (narrow.lane, narrow.priority, narrow.seq) = (seen.lane, seen.priority, seen.seq)
     WHERE seen.state = 'ready'
       FOR UPDATE OF narrow
),
scheduled AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen JOIN holdfast.scheduled AS narrow ON (narrow.run_after, narrow.seq) = (seen.run_after, seen.seq)
     WHERE seen.state = 'scheduled'
       FOR UPDATE OF narrow
),
running AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen JOIN holdfast.running AS narrow ON narrow.seq = seen.seq
     WHERE seen.state = 'running'
       FOR UPDATE OF narrow
),
finished AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen JOIN holdfast.finished AS narrow ON (narrow.finished_at, narrow.seq) = (seen.finished_at, seen.seq)
     WHERE seen.state NOT IN ('ready', 'scheduled', 'running', 'waiting')
       FOR UPDATE OF narrow
),
waiting AS MATERIALIZED (
    SELECT moved.seq
      FROM seen JOIN holdfast.moved AS moved ON moved.seq = seen.seq
     WHERE seen.state = 'waiting' AND moved.state = 'waiting'
       FOR UPDATE OF moved
)
SELECT seq FROM ready
UNION ALL SELECT seq FROM scheduled
UNION ALL SELECT seq FROM running
UNION ALL SELECT seq FROM finished
UNION ALL SELECT seq FROM waiting
