-- The first of the numbers that are free: they are taken by the jobs that this transaction adds.
SELECT max(value, coalesce((SELECT max(seq) FROM holdfast_job_spec), 0)) + 1 FROM holdfast_counter WHERE name = 'job'
