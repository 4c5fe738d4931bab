-- Who may ask over HTTP. Of every secret there is only a SHA-256: who can read this table can ask for nothing.
CREATE TABLE {schema}.api_key (
    prefix       text COLLATE "C" PRIMARY KEY,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    last_used_at bigint,
    revoked_at   bigint,
    name         text NOT NULL,
    digest       text NOT NULL,
    scope        text NOT NULL,
    queues       text
);

-- What a key was exchanged for, for a while: a browser's session, or a ticket for one stream of one job.
CREATE TABLE {schema}.pass (
    digest     text COLLATE "C" PRIMARY KEY,
    expires_at bigint NOT NULL,
    kind       text NOT NULL,
    api_key    text COLLATE "C",
    job        text
);

CREATE INDEX pass_expires ON {schema}.pass (expires_at);
