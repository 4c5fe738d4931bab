DELETE FROM {schema}.returned WHERE queue = :queue::text
