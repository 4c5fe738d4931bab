-- Read and cleared at once.
DELETE FROM holdfast_notice WHERE worker = :worker RETURNING seq, token, kind
