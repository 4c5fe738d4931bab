SELECT json_group_array(json_array(priority, seq, NULL))
  FROM (SELECT priority, seq FROM holdfast_ready WHERE lane = :lane ORDER BY priority, seq LIMIT :limit)
