-- The first of 4096 numbers that no other transaction gets.
SELECT nextval('{schema}.job_seq')
