INSERT INTO holdfast_api_key (prefix, name, digest, scope, queues, created_at, expires_at)
VALUES (:prefix, :name, :digest, :scope, :queues, :now, :expires_at)
