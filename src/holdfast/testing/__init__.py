"""For your own tests: the real store, a clock that you move, and crashes where you want them.

Nothing in Holdfast imports this package. The fixtures of `holdfast.testing.plugin` come with pytest by themselves.
"""

from holdfast.testing.clock import ManualClock
from holdfast.testing.crash import Crash, CrashPoint, every_crash, statements_of
from holdfast.testing.drain import arun_to_empty, run_to_empty
from holdfast.testing.elsewhere import elsewhere
from holdfast.testing.replay import always_replay

__all__ = [
    "Crash",
    "CrashPoint",
    "ManualClock",
    "always_replay",
    "arun_to_empty",
    "elsewhere",
    "every_crash",
    "run_to_empty",
    "statements_of",
]
