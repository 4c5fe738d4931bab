-- How many jobs `prune` would remove.
SELECT count(*) FROM holdfast_finished WHERE finished_at < :before
