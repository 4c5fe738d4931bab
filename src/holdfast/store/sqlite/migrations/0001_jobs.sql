-- The layout. What a job was enqueued with is apart from what has changed since; which jobs are ready, scheduled, running or
-- finished is kept in narrow tables of their own, so that a claim never sees history, and a blocked job can leave the ready table.
-- Times are microseconds: wall clock since 1970, but `*_tick`, which count from the boot named beside them.

-- Numbers that were given out. A new job takes the next after the newest one that is left; when jobs are deleted their
-- numbers are noted here, so that no late worker can mistake a new job for one that it held.
CREATE TABLE holdfast_counter (
    name  TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO holdfast_counter (name, value) VALUES ('job', 0);

-- Which database this is, so that a place in its history can be told from one in another's.
CREATE TABLE holdfast_identity (
    mark TEXT NOT NULL
);

INSERT INTO holdfast_identity (mark) VALUES (lower(hex(randomblob(16))));

-- A lane is a (queue, task) pair: what claims choose from. `limited`: a claim must look at its queue first. `bounded`: so must an
-- enqueue.
CREATE TABLE holdfast_lane (
    lane    INTEGER PRIMARY KEY,
    queue   TEXT NOT NULL,
    task    TEXT NOT NULL,
    limited INTEGER NOT NULL DEFAULT 0,
    bounded INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue, task)
);

-- What a job was enqueued with: written once, however large, and never again. It is the job's first event, too, which is not
-- written a second time: number 1, at `created_at`; `scheduled_for` is set where that was to wait for a time.
CREATE TABLE holdfast_job_spec (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    lane          INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    attempts_max  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    scheduled_for INTEGER,
    arguments     TEXT NOT NULL,
    key           TEXT,
    tags          TEXT,
    meta          TEXT,
    parent        TEXT,
    callback      TEXT
);

CREATE INDEX holdfast_job_spec_parent ON holdfast_job_spec (parent, seq) WHERE parent IS NOT NULL;

-- What has changed about a job since: small rows, for every move rewrites one. There is none until the first.
CREATE TABLE holdfast_job_state (
    seq         INTEGER PRIMARY KEY,
    lane        INTEGER NOT NULL,
    state       TEXT NOT NULL, -- no CHECK: SQLite evaluates it for 1.7 microseconds at every move
    attempt     INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,
    event_count INTEGER NOT NULL,
    run_after   INTEGER,
    started_at  INTEGER,
    finished_at INTEGER,
    result      TEXT,
    reason      TEXT,
    progress    TEXT,
    meter       TEXT
);

-- Both together: a job as it stands.
CREATE VIEW holdfast_job AS
SELECT spec.seq, spec.id, spec.lane, spec.priority, spec.attempts_max, spec.created_at, spec.scheduled_for, spec.arguments,
       spec.key, spec.tags, spec.meta, spec.parent, spec.callback,
       coalesce(job_state.state, CASE WHEN spec.scheduled_for IS NULL THEN 'ready' ELSE 'scheduled' END) AS state,
       coalesce(job_state.attempt, 0) AS attempt, coalesce(job_state.token, 0) AS token, coalesce(job_state.event_count, 1) AS event_count,
       CASE WHEN job_state.seq IS NULL THEN spec.scheduled_for ELSE job_state.run_after END AS run_after,
       job_state.started_at, job_state.finished_at, job_state.result, job_state.reason, job_state.progress, job_state.meter
  FROM holdfast_job_spec AS spec
  LEFT JOIN holdfast_job_state AS job_state ON job_state.seq = spec.seq;

CREATE TABLE holdfast_ready (
    lane     INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (lane, priority, seq)
) WITHOUT ROWID;

CREATE TABLE holdfast_scheduled (
    run_after INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    lane      INTEGER NOT NULL,
    PRIMARY KEY (run_after, seq)
) WITHOUT ROWID;

-- The claim is a row, so the claim is the fence. Its lease runs out `lease` microseconds after its worker's last beat.
CREATE TABLE holdfast_running (
    seq     INTEGER PRIMARY KEY,
    token   INTEGER NOT NULL,
    worker  INTEGER NOT NULL,
    lease   INTEGER NOT NULL,
    lane    INTEGER NOT NULL,
    limited INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX holdfast_running_limited ON holdfast_running (lane) WHERE limited = 1;

CREATE TABLE holdfast_finished (
    finished_at INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    state       TEXT NOT NULL,
    lane        INTEGER NOT NULL,
    PRIMARY KEY (finished_at, seq)
) WITHOUT ROWID;

CREATE INDEX holdfast_finished_unsuccessful ON holdfast_finished (state, seq) WHERE state <> 'succeeded';

-- From number 2 on. Who follows all jobs goes by `position`, which is never given out twice: AUTOINCREMENT costs one page of
-- the log per transaction, and nothing per event.
CREATE TABLE holdfast_event (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    job      INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    data     TEXT,
    UNIQUE (job, number)
);

CREATE TABLE holdfast_error (
    job       INTEGER NOT NULL,
    token     INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    message   TEXT NOT NULL,
    traceback TEXT NOT NULL,
    PRIMARY KEY (job, token)
) WITHOUT ROWID;

-- `ended` is set when the job itself was pruned: a key that lasts forever outlives its job.
CREATE TABLE holdfast_key (
    key        TEXT PRIMARY KEY NOT NULL,
    seq        INTEGER NOT NULL,
    id         TEXT NOT NULL,
    scope      TEXT NOT NULL,
    until      INTEGER,
    failed     TEXT NOT NULL,
    ended      TEXT,
    lane       INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_key_outlived ON holdfast_key (until) WHERE ended IS NOT NULL AND until IS NOT NULL;
CREATE INDEX holdfast_key_of_pruned ON holdfast_key (id) WHERE ended IS NOT NULL;

CREATE TABLE holdfast_tag (
    tag TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tag, seq)
) WITHOUT ROWID;

-- One beat per worker renews all of its leases. A claim made by hand is a worker of its own. `queues` is JSON; NULL: all.
CREATE TABLE holdfast_worker (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    host       TEXT NOT NULL,
    pid        INTEGER NOT NULL,
    by_hand    INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    beat_at    INTEGER NOT NULL,
    beat_tick  INTEGER NOT NULL,
    boot       TEXT NOT NULL,
    lease_min  INTEGER NOT NULL,
    slots      INTEGER NOT NULL,
    queues     TEXT
);

-- What a worker must be told about a job that was taken from it.
CREATE TABLE holdfast_notice (
    worker INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    token  INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    PRIMARY KEY (worker, seq, token)
) WITHOUT ROWID;

CREATE TABLE holdfast_meter (
    day    TEXT NOT NULL,
    lane   INTEGER NOT NULL,
    name   TEXT NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (day, lane, name)
) WITHOUT ROWID;

-- From where another database is being moved into this one; empty when that is done.
CREATE TABLE holdfast_transfer (
    origin TEXT PRIMARY KEY NOT NULL
) WITHOUT ROWID;

-- A queue that has limits, is paused, or was. `declared` comes from code, `live` from a person: JSON, the second over the first.
-- `memory` is what its limits remember from claim to claim. Before `closed_until` no claim need look at it, unless it has a mark.
CREATE TABLE holdfast_queue (
    name         TEXT PRIMARY KEY NOT NULL,
    declared     TEXT,
    live         TEXT,
    memory       TEXT,
    limited      INTEGER NOT NULL DEFAULT 0,
    bounded      INTEGER NOT NULL DEFAULT 0,
    closed_until INTEGER NOT NULL DEFAULT 0,
    kept_at      INTEGER NOT NULL DEFAULT 0,
    paused_until INTEGER NOT NULL DEFAULT 0,
    changed_at   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_queue_closed ON holdfast_queue (closed_until);

-- How many jobs of a bounded queue wait at most: those that were counted, and all that were added since.
CREATE TABLE holdfast_depth (
    queue TEXT PRIMARY KEY NOT NULL,
    jobs  INTEGER NOT NULL
) WITHOUT ROWID;

-- A run of a limited queue that has ended, for the next claim to look at. Only added here, so that no end waits for a claim.
CREATE TABLE holdfast_mark (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    seq   INTEGER NOT NULL
);

CREATE INDEX holdfast_mark_queue ON holdfast_mark (queue);

-- However a run ends, it leaves its mark.
CREATE TRIGGER holdfast_mark_end AFTER DELETE ON holdfast_running WHEN old.limited = 1 BEGIN
    INSERT INTO holdfast_mark (queue, seq) SELECT queue, old.seq FROM holdfast_lane WHERE lane = old.lane;
END;

-- Jobs of a bounded queue that were accepted before and wait again.
CREATE TABLE holdfast_returned (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    jobs  INTEGER NOT NULL
);

-- What was changed about a queue, when, and by whom.
CREATE TABLE holdfast_queue_change (
    queue  TEXT NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT,
    PRIMARY KEY (queue, number)
) WITHOUT ROWID;

-- One statement writes a whole job that is ready and has nothing special about it: a fifth of what an enqueue costs.
CREATE VIEW holdfast_new_job AS
SELECT id, lane, priority, attempts_max, created_at, arguments, meta, parent FROM holdfast_job_spec;

CREATE TRIGGER holdfast_add_job INSTEAD OF INSERT ON holdfast_new_job BEGIN
    INSERT INTO holdfast_job_spec (seq, id, lane, priority, attempts_max, created_at, arguments, meta, parent)
    VALUES (max((SELECT value FROM holdfast_counter WHERE name = 'job'), coalesce((SELECT max(seq) FROM holdfast_job_spec), 0)) + 1,
            new.id, new.lane, new.priority, new.attempts_max, new.created_at, new.arguments, new.meta, new.parent);
    INSERT INTO holdfast_ready (lane, priority, seq) VALUES (new.lane, new.priority, last_insert_rowid());
END;

-- For our own reads: every column of a job, its lane by name, its failed attempts, and how telling of its end goes on: the state
-- of the newest job that does it.
CREATE VIEW holdfast_full_job AS
SELECT job.seq, job.id, lane.task, lane.queue, job.lane, job.state, job.priority, job.attempt, job.attempts_max, job.token,
       job.event_count, job.arguments, job.result, job.reason, job.progress, job.meter, job.key, job.tags, job.meta,
       job.parent, job.created_at, job.run_after, job.started_at, job.finished_at,
       (SELECT json_group_array(json_array(at, attempt, kind, message, traceback))
          FROM (SELECT error.* FROM holdfast_error AS error WHERE error.job = job.seq ORDER BY error.token)) AS errors,
       job.callback,
       CASE WHEN job.callback IS NOT NULL AND job.finished_at IS NOT NULL
            THEN (SELECT telling.state
                    FROM holdfast_job AS telling
                    JOIN holdfast_lane AS its ON its.lane = telling.lane AND its.queue = 'holdfast.callbacks'
                   WHERE telling.parent = job.id ORDER BY telling.seq DESC LIMIT 1)
       END AS callback_state
  FROM holdfast_job AS job
  JOIN holdfast_lane AS lane ON lane.lane = job.lane;

-- For people: SELECT * FROM holdfast_jobs.
CREATE VIEW holdfast_jobs AS
SELECT job.id, lane.task, lane.queue, job.state, job.priority, job.attempt, job.attempts_max, job.arguments, job.result,
       job.reason AS error, job.progress, job.meter, job.key, job.tags, job.meta, job.parent, job.callback,
       datetime(job.created_at / 1000000, 'unixepoch') AS created_at,
       datetime(job.run_after / 1000000, 'unixepoch') AS run_after,
       datetime(job.started_at / 1000000, 'unixepoch') AS started_at,
       datetime(job.finished_at / 1000000, 'unixepoch') AS finished_at
  FROM holdfast_job AS job
  JOIN holdfast_lane AS lane ON lane.lane = job.lane;
