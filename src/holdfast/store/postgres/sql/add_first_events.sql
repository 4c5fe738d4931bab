INSERT INTO holdfast.event (job, number, kind, at)
SELECT seq, 1, :kind::text, :now::bigint FROM generate_series(:first::bigint, :last::bigint) AS seq
