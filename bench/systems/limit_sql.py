"""The statements of the limit."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, lane INTEGER, state TEXT, priority INTEGER, attempt INTEGER,
    attempts_max INTEGER, token INTEGER, event_count INTEGER, arguments TEXT, result TEXT,
    created_at INTEGER, run_after INTEGER, started_at INTEGER, finished_at INTEGER);
CREATE TABLE IF NOT EXISTS ready (
    lane INTEGER, priority INTEGER, seq INTEGER, PRIMARY KEY (lane, priority, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS running (
    seq INTEGER PRIMARY KEY, token INTEGER, worker INTEGER, lease INTEGER, lane INTEGER);
CREATE TABLE IF NOT EXISTS finished (
    finished_at INTEGER, seq INTEGER, state TEXT, lane INTEGER, PRIMARY KEY (finished_at, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    job INTEGER, number INTEGER, kind TEXT, at INTEGER, data TEXT, PRIMARY KEY (job, number)) WITHOUT ROWID;
"""

INSERT_JOB = """
INSERT INTO job (id, lane, state, priority, attempt, attempts_max, token, event_count, arguments, created_at)
VALUES (?, 1, 'ready', 100, 0, 3, 0, 1, ?, ?)
"""

NEXT_SEQ = "SELECT coalesce(max(seq), 0) + 1 FROM job"
INSERT_READY = "INSERT INTO ready (lane, priority, seq) VALUES (1, 100, ?)"

CHOOSE = """
SELECT json_group_array(seq), max(priority), max(seq)
FROM (SELECT priority, seq FROM ready WHERE lane = 1 ORDER BY priority, seq LIMIT ?)
"""

DELETE_READY = "DELETE FROM ready WHERE lane = 1 AND (priority, seq) <= (?, ?)"

START_JOB = """
UPDATE job SET state = 'running', attempt = attempt + 1, token = token + 1, event_count = event_count + 1, started_at = ?
WHERE seq IN (SELECT value FROM json_each(?))
"""

INSERT_RUNNING = """
INSERT INTO running (seq, token, worker, lease, lane)
SELECT seq, token, 1, started_at + 15000000, lane FROM job WHERE seq IN (SELECT value FROM json_each(?))
"""

INSERT_STARTED = """
INSERT INTO event (job, number, kind, at)
SELECT seq, event_count, 'started', started_at FROM job WHERE seq IN (SELECT value FROM json_each(?))
"""

READ_CLAIMED = """
SELECT json_group_array(json_array(seq, id, token, attempt, arguments))
FROM job WHERE seq IN (SELECT value FROM json_each(?))
"""

HELD = """
SELECT json_group_array(running.seq) FROM json_each(?) AS outcome
JOIN running ON running.seq = outcome.value ->> 0 AND running.token = outcome.value ->> 1
"""

DELETE_RUNNING = "DELETE FROM running WHERE seq IN (SELECT value FROM json_each(?))"

FINISH_JOB = """
UPDATE job SET state = 'succeeded', result = outcome.value ->> 2, finished_at = ?, event_count = event_count + 1
FROM json_each(?) AS outcome WHERE job.seq = outcome.value ->> 0
"""

INSERT_FINISHED = """
INSERT INTO finished (finished_at, seq, state, lane)
SELECT ?, seq, state, lane FROM job WHERE seq IN (SELECT value FROM json_each(?))
"""

INSERT_SUCCEEDED = """
INSERT INTO event (job, number, kind, at)
SELECT seq, event_count, state, finished_at FROM job WHERE seq IN (SELECT value FROM json_each(?))
"""
