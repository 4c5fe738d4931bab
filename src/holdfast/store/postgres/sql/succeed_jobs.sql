-- What has changed about each job and its event at once. results: {seq: result}
WITH ended AS (
    UPDATE holdfast.moved
       SET state = 'succeeded', finished_at = :now::bigint, event_count = event_count + 1, reason = NULL,
           result = (SELECT :results::jsonb) ->> seq::text
     WHERE seq = ANY ((SELECT translate(:seqs::text, '[]', '{}'))::bigint[])
    RETURNING seq, event_count
)
INSERT INTO holdfast.event (job, number, kind, at) SELECT seq, event_count, 'succeeded', :now::bigint FROM ended
