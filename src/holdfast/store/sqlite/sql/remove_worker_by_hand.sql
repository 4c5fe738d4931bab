-- A claim made by hand is a worker of its own, for one job: it goes when that has ended.
DELETE FROM holdfast_worker WHERE id = :worker AND by_hand = 1
