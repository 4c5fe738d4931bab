SELECT json_group_array(seq), max(finished_at)
  FROM (SELECT seq, finished_at FROM holdfast_finished WHERE finished_at < :before ORDER BY finished_at, seq LIMIT :limit)
