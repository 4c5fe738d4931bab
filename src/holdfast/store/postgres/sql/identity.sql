-- Which layout this connection sees, which database it is, and how its transaction is isolated.
SELECT (SELECT max(version) FROM {schema}.migration), (SELECT json_agg(mark)::text FROM {schema}.identity),
       current_setting('transaction_isolation')
