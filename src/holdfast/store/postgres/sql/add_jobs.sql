-- A span of bodies that share everything else.
INSERT INTO holdfast.job (seq, lane, state, priority, attempts_max, created_at, run_after)
SELECT seq, :lane::integer, :state::text, :priority::integer, :attempts_max::integer, :now::bigint, :run_after::bigint
  FROM generate_series(:first::bigint, :last::bigint) AS seq
