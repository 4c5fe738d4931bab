DELETE FROM {schema}.notice
 WHERE (worker, seq, token) IN (SELECT worker, seq, token FROM {schema}.notice AS notice
                                 WHERE NOT EXISTS (SELECT 1 FROM {schema}.worker WHERE id = notice.worker)
                                   FOR UPDATE SKIP LOCKED)
