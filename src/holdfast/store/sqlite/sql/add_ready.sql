INSERT INTO holdfast_ready (lane, priority, seq)
SELECT lane, priority, seq FROM holdfast_job WHERE seq BETWEEN :first AND :last AND state = 'ready'
