INSERT INTO {schema}.queue (name, changed_at) SELECT queue, :now::bigint FROM {schema}.lane WHERE lane = :lane::integer
    ON CONFLICT (name) DO NOTHING
