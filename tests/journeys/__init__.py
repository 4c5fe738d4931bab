"""Journeys: real processes, real signals, short leases. What happened is read from ledgers, the log and the database."""
