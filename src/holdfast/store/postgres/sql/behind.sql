-- Waits for the chunk that begins with :first until its transaction has ended. If it was not kept there is room for it: an error,
-- so that what would come behind it is not kept either.
INSERT INTO holdfast.chunk (first, last) VALUES (:first::bigint, :first::bigint)
    ON CONFLICT (first) DO NOTHING
RETURNING ('the chunk before was not kept: ' || first)::bigint
