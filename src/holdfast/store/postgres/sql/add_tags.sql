INSERT INTO holdfast.tag (tag, seq) VALUES (:tag::text, :seq::bigint) ON CONFLICT DO NOTHING
