INSERT INTO holdfast_lane (queue, task) VALUES (:queue, :task) RETURNING lane
