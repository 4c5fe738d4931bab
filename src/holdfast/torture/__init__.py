"""Real processes, real kills, checked against ledgers outside the database: `holdfast torture`."""

from holdfast.torture.run import run

__all__ = ["run"]
