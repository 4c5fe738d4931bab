UPDATE {schema}.key SET seq = :seq::bigint, id = :id::text, lane = :lane::integer, ended = NULL WHERE key = :key::text
