-- How many jobs `prune` would remove.
SELECT count(*) FROM {schema}.finished WHERE finished_at < :before::bigint
