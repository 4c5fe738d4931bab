-- Who may ask over HTTP. Of every secret there is only a SHA-256: who can read this table can ask for nothing.
CREATE TABLE holdfast_api_key (
    prefix       TEXT PRIMARY KEY NOT NULL,
    name         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    scope        TEXT NOT NULL,
    queues       TEXT,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) WITHOUT ROWID;

-- What a key was exchanged for, for a while: a browser's session, or a ticket for one stream of one job.
CREATE TABLE holdfast_pass (
    digest     TEXT PRIMARY KEY NOT NULL,
    kind       TEXT NOT NULL,
    api_key    TEXT,
    job        TEXT,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_pass_expires ON holdfast_pass (expires_at);
