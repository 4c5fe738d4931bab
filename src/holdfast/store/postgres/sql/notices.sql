-- Read and cleared at once: what is written meanwhile stays for the next time.
DELETE FROM {schema}.notice WHERE worker = :worker::bigint RETURNING seq, token, kind
