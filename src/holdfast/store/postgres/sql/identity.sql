-- Which layout this connection sees, and which database it is.
SELECT (SELECT max(version) FROM {schema}.migration), (SELECT json_agg(mark)::text FROM {schema}.identity)
