-- A job's first event, where the others are kept, how many there are, and whether more will come.
SELECT seq, created_at, scheduled_for, event_count, state FROM {schema}.job WHERE id = :id::text
