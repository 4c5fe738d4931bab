INSERT INTO holdfast_scheduled (run_after, seq, lane)
SELECT :run_after, seq, :lane FROM holdfast_job_spec WHERE seq BETWEEN :first AND :last
