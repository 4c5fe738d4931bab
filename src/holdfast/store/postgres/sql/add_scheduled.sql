INSERT INTO holdfast.scheduled (run_after, seq, lane)
SELECT :run_after::bigint, seq, :lane::integer FROM generate_series(:first::bigint, :last::bigint) AS seq
