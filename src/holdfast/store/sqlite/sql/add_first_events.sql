INSERT INTO holdfast_event (job, number, kind, at)
SELECT seq, 1, :kind, :now FROM holdfast_body WHERE seq BETWEEN :first AND :last
