-- One job without key, tags or an id that the caller chose, ready at once: all of its rows. The insert is refused if there is no lane,
-- or if its queue is bounded.
INSERT INTO holdfast_new_job (id, lane, priority, attempts_max, created_at, arguments, meta, parent)
VALUES (:id, (SELECT lane FROM holdfast_lane WHERE queue = :queue AND task = :task AND bounded = 0), :priority, :attempts_max, :now, :arguments,
        :meta, :parent)
