SELECT declared, live FROM {schema}.queue WHERE name = :queue::text
