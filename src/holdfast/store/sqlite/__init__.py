"""SQLite: one file, many processes."""
