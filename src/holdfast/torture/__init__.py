"""Real processes, real kills, judged from ledgers outside the database: `holdfast torture`."""

from holdfast.torture.run import run

__all__ = ["run"]
