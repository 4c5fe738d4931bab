INSERT INTO holdfast_scheduled (run_after, seq, lane)
SELECT scheduled_for, seq, lane FROM holdfast_job_spec WHERE seq BETWEEN :first AND :last AND scheduled_for IS NOT NULL
