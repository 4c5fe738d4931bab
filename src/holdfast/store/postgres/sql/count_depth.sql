-- How many jobs wait in this queue; no more than :limit are counted.
SELECT count(*)
  FROM (SELECT 1 FROM {schema}.ready AS ready
         WHERE ready.lane = ANY (ARRAY(SELECT lane FROM {schema}.lane WHERE queue = :queue::text))
        UNION ALL
        SELECT 1 FROM {schema}.scheduled AS scheduled
         WHERE scheduled.lane = ANY (ARRAY(SELECT lane FROM {schema}.lane WHERE queue = :queue::text))
        LIMIT :limit::bigint) AS waiting
