DELETE FROM {schema}.mark WHERE id = ANY ((SELECT translate(:ids::text, '[]', '{}'))::bigint[])
