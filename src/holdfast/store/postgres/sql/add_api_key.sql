INSERT INTO {schema}.api_key (prefix, name, digest, scope, queues, created_at, expires_at)
VALUES (:prefix::text, :name::text, :digest::text, :scope::text, :queues::text, :now::bigint, :expires_at::bigint)
