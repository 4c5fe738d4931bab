SELECT json_group_array(seq)
  FROM (SELECT seq FROM holdfast_scheduled WHERE run_after <= :now ORDER BY run_after, seq LIMIT :limit)
