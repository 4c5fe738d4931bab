-- The first of 4096 numbers each, for :count chunks.
SELECT nextval('holdfast.job_seq') FROM generate_series(1, :count::bigint)
