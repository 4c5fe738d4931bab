-- A span of bodies that share everything else.
INSERT INTO holdfast_job (seq, lane, state, priority, attempts_max, created_at, run_after)
SELECT seq, :lane, :state, :priority, :attempts_max, :now, :run_after FROM holdfast_body WHERE seq BETWEEN :first AND :last
