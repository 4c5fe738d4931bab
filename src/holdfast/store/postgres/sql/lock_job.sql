-- The row of the narrow table that the job is in: no other transaction can move the job then. No row comes back if one just did.
WITH seen AS MATERIALIZED (
    SELECT seq, state, lane, priority, run_after, finished_at FROM {schema}.job WHERE id = :id::text
),
ready AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen
     CROSS JOIN LATERAL (SELECT seq FROM {schema}.ready AS own
                          WHERE (own.lane, own.priority, own.seq) = (seen.lane, seen.priority, seen.seq) FOR UPDATE) AS narrow
     WHERE seen.state = 'ready'
),
scheduled AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen
     CROSS JOIN LATERAL (SELECT seq FROM {schema}.scheduled AS own
                          WHERE (own.run_after, own.seq) = (seen.run_after, seen.seq) FOR UPDATE) AS narrow
     WHERE seen.state = 'scheduled'
),
running AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen CROSS JOIN LATERAL (SELECT seq FROM {schema}.running AS own WHERE own.seq = seen.seq FOR UPDATE) AS narrow
     WHERE seen.state = 'running'
),
finished AS MATERIALIZED (
    SELECT narrow.seq
      FROM seen
     CROSS JOIN LATERAL (SELECT seq FROM {schema}.finished AS own
                          WHERE (own.finished_at, own.seq) = (seen.finished_at, seen.seq) FOR UPDATE) AS narrow
     WHERE seen.state NOT IN ('ready', 'scheduled', 'running', 'waiting')
),
waiting AS MATERIALIZED (
    SELECT job_state.seq
      FROM seen
     CROSS JOIN LATERAL (SELECT seq FROM {schema}.job_state AS own
                          WHERE own.seq = seen.seq AND own.state = 'waiting' FOR UPDATE) AS job_state
     WHERE seen.state = 'waiting'
)
SELECT seq FROM ready
UNION ALL SELECT seq FROM scheduled
UNION ALL SELECT seq FROM running
UNION ALL SELECT seq FROM finished
UNION ALL SELECT seq FROM waiting
