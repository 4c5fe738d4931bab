DELETE FROM holdfast_notice WHERE worker NOT IN (SELECT id FROM holdfast_worker)
