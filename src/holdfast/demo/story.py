"""The story, act by act. Each act is a function of the play: one more is one more line in `ACTS`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from holdfast.app import Holdfast
from holdfast.cli.screen import facts_grid, line, print_grid, screen, watched
from holdfast.demo import after, ledger, pages
from holdfast.demo.live import LiveDisplay
from holdfast.demo.plain import PlainDisplay
from holdfast.demo.stage import CONCURRENCY, LEASE_SECONDS, Stage
from holdfast.demo.verdict import BY_HAND, Cast, Verdict, verdicts
from holdfast.demo.watch import GaveUp, Picture, Watch, is_document, name_of
from holdfast.domain.job import Job
from holdfast.domain.key import Key
from holdfast.domain.states import State

SURVIVOR: Final = "worker-a"
VICTIM: Final = "worker-b"
MIDDLE: Final = (0.2, 0.7)
ROUND: Final = 2 * CONCURRENCY


class Play:
    """What the acts hand on to each other."""

    def __init__(self, stage: Stage, app: Holdfast, tasks: Any, display: LiveDisplay | PlainDisplay) -> None:
        self.stage, self.app, self.tasks, self.display = stage, app, tasks, display
        self.watch = Watch(app, stage, display)
        self.flaky = self.dead = self.keyed = self.keyed_again = ""
        self.interrupted: list[str] = []

    @property
    def cast(self) -> Cast:
        return Cast(self.flaky, self.dead, self.keyed, self.keyed_again, self.interrupted)


# The acts


def enqueue(play: Play) -> None:
    tasks, directory = play.tasks, play.stage.directory
    folders = pages.write_documents(directory)
    damaged, checksum = pages.write_damaged(directory)
    small = play.app.enqueue_many(
        tasks.fingerprint.bind(str(page)) for folder in folders[:4] for page in sorted(folder.iterdir())
    )
    large = play.app.enqueue_many(tasks.read_document.bind(str(folder)) for folder in folders)
    play.flaky = tasks.fetch.enqueue("map-of-the-archive").id
    play.dead = tasks.verify.enqueue(str(damaged), checksum).id
    index = tasks.make_index.using(key=Key("index", 1))
    play.keyed, play.keyed_again = index.enqueue(str(directory)).id, index.enqueue(str(directory)).id
    play.display.say(
        f"enqueued {len(small)} small jobs and {len(large)} long ones; one that fails twice, one that cannot work, one key twice"
    )


def start_workers(play: Play) -> None:
    for name in (SURVIVOR, VICTIM):
        play.stage.start_worker(name)
    play.display.say(f"started two worker processes, {SURVIVOR} and {VICTIM}, with a lease of {LEASE_SECONDS:g} seconds")


def kill_one(play: Play) -> None:
    """In the middle of its jobs."""
    picture = play.watch.until(f"{VICTIM} in the middle of its jobs", _victim_is_busy)
    play.stage.kill_worker(VICTIM)
    held = _held_by(picture, VICTIM)
    play.interrupted = [job.id for job in held]
    names = ", ".join(f"{name_of(job)} at {job.progress['fraction']:.0%}" for job in held)
    play.display.say(f"killed {VICTIM} with SIGKILL in the middle of {names}", "bold red")


def see_takeover(play: Play) -> None:
    def taken(picture: Picture) -> bool:
        jobs = [picture.jobs[id] for id in play.interrupted]
        return all(job.attempt == 2 or job.state in BY_HAND for job in jobs)

    play.watch.until("its jobs taken over", taken)
    play.display.say(f"{SURVIVOR} has taken over the jobs of {VICTIM}", "bold green")


def finish(play: Play) -> None:
    play.watch.until("all jobs ended", lambda picture: all(job.final for job in picture.jobs.values()))
    play.stage.stop_workers()
    play.display.say("all jobs have ended; the workers were told to stop, and did")


ACTS: Final[tuple[Callable[[Play], None], ...]] = (enqueue, start_workers, kill_one, see_takeover, finish)


# The performance


def run(*, clean: bool = False, plain: bool = False, stay: bool | None = None) -> int:
    """Play all acts, print the verdict; 0 if everything held. Where a person watches, the page stays for a while."""
    with Stage() as stage:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the workers go down with the demo
        app, tasks = _open(stage)
        console = screen()
        line(Text(f"Holdfast demo, in {stage.directory}", style="bold"))
        stage.start_page()
        _say_where(stage)
        try:
            code = _perform(stage, app, tasks, console, live=watched() and not plain)
            if stage.page_url is not None and (watched() if stay is None else stay):
                after.stay(stage, tasks, after.STAY_SECONDS if stay is None else None)
            return code
        except GaveUp as error:
            line(Text(f"The demo could not go on: {error}", style="bold red"))
            return 1
        finally:
            app.close()
            if clean:
                stage.stop()
                stage.remove()
            else:
                _say_next(stage, app)


def _perform(stage: Stage, app: Holdfast, tasks: Any, console: Console, *, live: bool) -> int:
    display = LiveDisplay(console, stage.page_url) if live else PlainDisplay()
    with display:
        play = Play(stage, app, tasks, display)
        try:
            for act in ACTS:
                act(play)
        finally:
            play.watch.close()
    jobs = {job.id: job for job in app.jobs(newest=False, limit=1000)}
    found = list(verdicts(jobs, ledger.read(stage.ledger), play.cast))
    _print_verdicts(found)
    return 0 if all(verdict.holds for verdict in found) else 1


def _say_where(stage: Stage) -> None:
    if stage.page_url is None:
        line("To watch it in a browser as well: pip install 'holdfast[web]', and run it again")
    else:
        line("Watch it at ", Text(stage.page_url, style="bold underline"))


def _open(stage: Stage) -> tuple[Holdfast, Any]:
    """The demo's app, which finds its database as any app does: by the environment."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        del os.environ[name]
    os.environ["HOLDFAST_URL"] = stage.url
    tasks = import_module("holdfast.demo.tasks")
    return tasks.app, tasks


def _victim_is_busy(picture: Picture) -> bool:
    """In its second round of documents, and with nothing else at hand: a small job might end at the very moment."""
    low, high = MIDDLE
    held = _held_by(picture, VICTIM)
    done = sum(1 for job in picture.jobs.values() if is_document(job) and job.state is State.SUCCEEDED)
    only_documents = all(is_document(job) for job in picture.running())
    in_the_middle = len(held) == CONCURRENCY and all(low <= job.progress["fraction"] <= high for job in held)
    return done >= ROUND and only_documents and in_the_middle


def _held_by(picture: Picture, worker: str) -> list[Job]:
    return [job for job in picture.running() if job.progress.get("worker") == worker and job.attempt == 1]


def _print_verdicts(found: list[Verdict]) -> None:
    line("")
    print_grid(facts_grid([(_mark(verdict), verdict.text) for verdict in found], ""))


def _mark(verdict: Verdict) -> Text:
    return Text(" ✔", style="green") if verdict.holds else Text(" ✘", style="bold red")


def _say_next(stage: Stage, app: Holdfast) -> None:
    program = _program()
    failed = next(iter(app.jobs(state=State.FAILED, limit=1)), None)
    app.close()
    line("")
    line("The database is still there. To look around:")
    line(f"  export HOLDFAST_URL={stage.url}")
    for command, why in (
        ("jobs", "all jobs"),
        (f"show {failed.handle if failed else 'ID'}", "why it failed for good"),
        ("stats", "how many"),
        ("doctor", "is all well?"),
    ):
        line(f"  {program} {command:<22}", Text(f" {why}", style="dim"))
    line(f"  rm -r {stage.directory}")


def _program() -> str:
    """How this program can be called again from here."""
    called = sys.argv[0]
    if called.endswith("__main__.py"):
        return "python -m holdfast"
    return "holdfast" if shutil.which("holdfast") == os.path.abspath(called) else os.path.relpath(called)
