-- The first :limit jobs of a lane behind one place in its order, up to another.
SELECT json_group_array(json_array(priority, seq, NULL))
  FROM (SELECT priority, seq FROM holdfast_ready
         WHERE lane = :lane
           AND (priority, seq) > (:after_priority, :after_seq) AND (priority, seq) <= (:last_priority, :last_seq)
         ORDER BY priority, seq LIMIT :limit)
