"""What `doctor` asks a PostgreSQL server. Every user may ask all of it; some see less than others in the answer."""

from __future__ import annotations

from typing import Final

SERVER: Final = """
SELECT current_setting('server_version'), current_user::text, pg_is_in_recovery(),
       current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
       current_setting('synchronous_commit') <> 'off',
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on'
"""

CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"

# Who holds a snapshot or has written, in this database: no row that died since can be removed. A vacuum holds back nobody.
TRANSACTIONS: Final = """
SELECT pid, usename, application_name, state, extract(epoch FROM clock_timestamp() - xact_start)::float8,
       greatest(age(backend_xmin), age(backend_xid)), left(query, 1000)
  FROM pg_stat_activity AS other
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
   AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
   AND backend_type <> 'autovacuum worker'
   AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS vacuum WHERE vacuum.pid = other.pid)
 ORDER BY xact_start
 LIMIT 5
"""

# Sessions of others, of which a user without pg_read_all_stats is told nothing.
HIDDEN: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = '<insufficient privilege>'
"""

PREPARED: Final = """
SELECT gid, owner::text, extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)
  FROM pg_prepared_xacts WHERE database = current_database()
 ORDER BY prepared
 LIMIT 5
"""

SLOTS: Final = """
SELECT slot_name::text, active, age(xmin),
       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
                       restart_lsn)::bigint
  FROM pg_replication_slots
 ORDER BY age(xmin) DESC NULLS LAST, 4 DESC NULLS LAST
 LIMIT 5
"""

# Without a slot, what a standby asks for is kept in the session that sends to it.
STANDBYS: Final = """
SELECT application_name, age(backend_xmin) FROM pg_stat_replication WHERE backend_xmin IS NOT NULL ORDER BY 2 DESC LIMIT 5
"""

# With names set and none of them there, every commit waits. (Who may not see the state of a standby sees that it is there.)
SYNCHRONOUS: Final = """
SELECT current_setting('synchronous_standby_names'),
       count(*) FILTER (WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum'))
  FROM pg_stat_replication
"""

TABLES: Final = """
SELECT relname::text, n_live_tup, n_dead_tup, pg_table_size(relid), pg_indexes_size(relid),
       extract(epoch FROM clock_timestamp() - last_autovacuum)::float8,
       extract(epoch FROM clock_timestamp() - greatest(last_autovacuum, last_vacuum))::float8
  FROM pg_stat_user_tables
 WHERE schemaname = $1
 ORDER BY 4 + 5 DESC, 1
"""

# Who may not see the others' kind still sees that they are there.
CONNECTIONS: Final = """
SELECT count(*), count(*) FILTER (WHERE application_name = 'holdfast'),
       current_setting('max_connections')::bigint,
       current_setting('superuser_reserved_connections')::bigint
       + coalesce(current_setting('reserved_connections', true), '0')::bigint
  FROM pg_stat_activity
 WHERE usesysid IS NOT NULL AND (backend_type IS NULL OR backend_type = 'client backend')
"""

# Jobs that are not where their state says, or are somewhere and not there at all.
ASTRAY: Final = """
SELECT count(*)
  FROM {schema}.job AS job
  FULL JOIN (SELECT seq, 'ready' AS state FROM {schema}.ready
             UNION ALL SELECT seq, 'scheduled' FROM {schema}.scheduled
             UNION ALL SELECT seq, 'running' FROM {schema}.running
             UNION ALL SELECT seq, state FROM {schema}.finished) AS narrow ON narrow.seq = job.seq
 WHERE coalesce(job.state, '') <> 'waiting' AND job.state IS DISTINCT FROM narrow.state
    OR job.state = 'waiting' AND narrow.seq IS NOT NULL
"""
