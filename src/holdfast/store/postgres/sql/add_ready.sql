INSERT INTO holdfast.ready (lane, priority, seq)
SELECT :lane::integer, :priority::integer, seq FROM generate_series(:first::bigint, :last::bigint) AS seq
