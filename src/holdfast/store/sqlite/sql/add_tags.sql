INSERT OR IGNORE INTO holdfast_tag (tag, seq) VALUES (:tag, :seq)
