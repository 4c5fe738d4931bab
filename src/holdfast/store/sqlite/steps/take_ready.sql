-- Those that were seen first in this lane, up to and including one: a claim always takes a prefix.
DELETE FROM holdfast_ready WHERE lane = :lane AND (priority, seq) <= (:priority, :seq)
