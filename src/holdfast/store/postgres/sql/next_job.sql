-- The first of 4096 numbers that nobody else is given.
SELECT nextval('{schema}.job_seq')
