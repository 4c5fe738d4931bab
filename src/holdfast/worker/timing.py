"""How often and how long a worker does things, each with the reason and with what happens if it is halved."""

from __future__ import annotations

from typing import Final

# The clerk

BEATS_PER_LEASE: Final = 3
"""Two beats may fail before a lease is in danger. Halved, one lost reply ends leases."""
TEND_SECONDS: Final = 1.0
"""How late a dead worker's job or a due job may be noticed. Halved, an idle worker asks the database twice as often."""
PRUNE_SECONDS: Final = 60.0
"""Between batches of old jobs while there are few; while there are many, a batch comes with every tending. Halved: no effect."""
NOTICE_SECONDS: Final = 0.05
"""How soon a worker without a free slot reads that a job was taken from it. Halved, a full worker looks 40 times a second."""
DELAY_SECONDS: Final = 0.001
"""One step of waiting for more reports before a commit. Halved, the clerk wakes twice as often for the same commit."""
DELAY_SECONDS_MAX: Final = 0.02
"""How long a commit is delayed for more reports, while the pools have work. Halved, no-op jobs cost up to a tenth more."""
UNSTARTED_SECONDS: Final = 1.0
"""What found no slot for so long is handed back, for others may have one. Halved, a burst of slow jobs is handed to and fro."""
START_SECONDS: Final = 0.000_2
"""The clerk steps aside for the thread that starts a job. Halved, or without it, one start in a hundred waits 5 to 20 ms for the
interpreter."""
RETRY_SECONDS: Final = (0.05, 2.0)
"""The first and the longest pause between tries while the database does not answer. Halved, a starting server is asked more."""
CLOSING_SECONDS: Final = 0.05
"""How often a worker that is stopping looks whether its runs have ended. Halved: no effect."""

BUSY_SECONDS: Final = (0.005, 0.25)
"""The first and the longest pause before a queue is looked at again that another transaction has locked. Halved, a transaction
that is left open costs twice as many claims."""

# Reports

REPORT_SECONDS: Final = 0.05
"""How long a task's events may wait for a commit. Halved, a chatty task costs twice as many commits."""
PROGRESS_SECONDS: Final = 1.0
"""How often progress of one job is written: only the last counts. Halved, a million ticks make twice as many events."""

# Deploys

NEWER_SECONDS: Final = (1.0, 60.0)
"""The shortest and the longest pause of a job with an argument that only a newer worker knows: its age, within these.
Halved, old workers claim such jobs twice as often."""
NEWER_SECONDS_MAX: Final = 3600.0
"""How long after it was enqueued such a job is left to newer workers before it fails. Halved, half an hour for a deploy."""

# Prefetch

PREFETCH_SECONDS: Final = 0.05
"""Jobs are claimed ahead for so long, at the rate of late. Halved, a worker of no-op jobs runs dry while it commits."""
RATE_SECONDS: Final = 0.1
"""Over which time that rate is measured. Halved, one slow job in a row of quick ones stops the claiming ahead."""

# The watchdog

LEASE_MARGIN: Final = 5
"""A run is stopped when less than a fifth of its lease is left. Halved, two fifths: a slow commit of 12 s ends runs of 30 s."""
STOP_TICKS: Final = 2_000_000
"""How many microseconds a stopped run may take to end before its slot is given away. Halved, cleanup code is cut off."""
WATCH_SECONDS: Final = 0.25
"""The longest pause between looks at the runs. Halved: no effect but CPU."""
FROZEN_TICKS: Final = 1_000_000
"""Looks further apart than this mean that the process stood still. Halved, a busy machine looks like a suspended one."""
FROZEN_PATIENCE_SECONDS: Final = 1.0
"""How long the clerk is given for a beat after that, before runs are stopped. Halved, a resumed laptop loses its runs."""

# The worker

STOPPING_SECONDS: Final = 0.5
"""How long code that was stopped may take, when the worker itself has no more time. Halved, less cleanup at a deploy."""
EXIT_SECONDS: Final = 5.0
"""How long a program that ends under its worker waits for jobs to be handed back. Halved, a slow disk costs an attempt."""
ANSWER_SECONDS_MIN: Final = 3.0
"""A server that is silent for longer, and for most of a lease, is asked again through another connection."""
LOOP_TURN_SECONDS: Final = 0.001
"""How long jobs that wait for nothing may follow each other before the event loop gets to everything else."""
LOOP_LEFT_SECONDS: Final = 1.0
"""How long a loop that is ours waits at its end for tasks that were cancelled."""
