-- And the chunks of which they were the last: a chunk begins with the first of its run of 4096 numbers.
WITH given AS MATERIALIZED (
    SELECT seq FROM unnest((SELECT translate(:seqs::text, '[]', '{}'))::bigint[]) AS seq
),
ended AS (
    DELETE FROM holdfast.chunk AS chunk
     WHERE chunk.first = ANY (ARRAY(SELECT DISTINCT seq - (seq - 1) % 4096 FROM given))
       AND NOT EXISTS (SELECT 1 FROM holdfast.body AS body
                        WHERE body.seq BETWEEN chunk.first AND chunk.last AND body.seq NOT IN (SELECT seq FROM given))
)
DELETE FROM holdfast.body WHERE seq = ANY (ARRAY(SELECT seq FROM given))
