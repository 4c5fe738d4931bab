-- A claim made by hand is a worker of its own, for one job: it goes when that has ended.
DELETE FROM {schema}.worker WHERE id = :worker::bigint AND by_hand = 1
