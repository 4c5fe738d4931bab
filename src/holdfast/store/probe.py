"""Where tests look into a store: a probe is called before every statement ("begin", the verb, "commit") and after the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Probe = Callable[[str], None]


class Probed(Protocol):
    """Has a probe, perhaps."""

    probe: Probe | None
