DELETE FROM holdfast.notice
 WHERE (worker, seq, token) IN (SELECT worker, seq, token FROM holdfast.notice AS notice
                                 WHERE NOT EXISTS (SELECT 1 FROM holdfast.worker WHERE id = notice.worker)
                                   FOR UPDATE SKIP LOCKED)
