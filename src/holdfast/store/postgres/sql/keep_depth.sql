UPDATE {schema}.depth SET jobs = :count::bigint WHERE queue = :queue::text
