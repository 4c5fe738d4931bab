INSERT INTO {schema}.queue (name, changed_at) VALUES (:queue::text, :now::bigint) ON CONFLICT (name) DO NOTHING
