INSERT INTO holdfast_ready (lane, priority, seq)
SELECT :lane, :priority, seq FROM holdfast_job_spec WHERE seq BETWEEN :first AND :last
