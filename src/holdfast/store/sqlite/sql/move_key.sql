UPDATE holdfast_key SET seq = :seq, id = :id, lane = :lane, ended = NULL WHERE key = :key
