"""Numbered migrations, applied in one transaction each time: safe when many processes start at once."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from holdfast.errors import StoreUnavailable

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """All migrations of one database, in order."""
    folder = resources.files(package).joinpath("migrations")
    found = [(_FILE.fullmatch(file.name), file) for file in folder.iterdir()]
    return tuple(sorted(Migration(int(m[1]), m[2], file.read_text(encoding="utf-8")) for m, file in found if m))


def pending(package: str, version: int, where: str) -> list[Migration]:
    """What is still to be applied to a database at `version`; one from the future is refused."""
    known = migrations(package)
    if version > known[-1].version:
        raise StoreUnavailable(
            f"{where} is at schema version {version}, this Holdfast knows {known[-1].version}: "
            "upgrade Holdfast, nothing was changed"
        )
    return [migration for migration in known if migration.version > version]
