"""Every operation that writes, each with what must be there before it: what the crash tests go through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast import Conflict, Holdfast, HoldfastError, IllegalMove, Key, LeaseLost, Retry, Snooze
from holdfast.testing import ManualClock

LEASE = 10.0
CALLBACK = "https://hooks.example.com/"


class Stage:
    """An app on one database, at a time that is the same whenever it is opened."""

    def __init__(self, url: str, seconds: float = 0.0) -> None:
        self.url, self.clock = url, ManualClock()
        self.clock.advance(seconds)
        self.app = app = Holdfast(url, clock=self.clock)
        app.courier.resolve = lambda *_: ["93.184.215.14"]

        @app.task(name="work", retry=Retry(delays=[5, 5], jitter=0))
        def work(number: int) -> int:
            return number

        self.work = work

    def lease(self) -> Any:
        lease = self.app.claim(seconds=LEASE, worker="hand")
        assert lease is not None
        return lease

    def reopen(self) -> Stage:
        """What another process would find, at the same time."""
        return Stage(self.url, (self.clock.now() - ManualClock().now()) / 1e6)


def nothing(stage: Stage) -> None:
    return None


@dataclass(frozen=True)
class Scene:
    """`act` gets what `arrange` returned; `again` are the answers allowed when it is done a second time after it was kept."""

    name: str
    act: Callable[[Stage, Any], object]
    arrange: Callable[[Stage], Any] = nothing
    again: tuple[type[HoldfastError], ...] = field(default=())


def one_ready(stage: Stage) -> str:
    return stage.work.using(id="one").enqueue(1).id


def one_leased(stage: Stage) -> Any:
    one_ready(stage)
    return stage.lease()


def last_attempt(stage: Stage) -> Any:
    stage.work.using(id="one", attempts=1, key="k", tags=["x"]).enqueue(1)
    return stage.lease()


def one_to_be_told(stage: Stage) -> Any:
    stage.work.using(id="one", attempts=1, key="k", callback=CALLBACK).enqueue(1)
    return stage.lease()


def one_told(stage: Stage) -> str:
    """A job that has ended, and what tells of it waits."""
    return stage.app.finish(one_to_be_told(stage), 1).id


def failed_and_replaced(stage: Stage) -> str:
    """A failed job whose key was taken by another that failed too."""
    stage.app.fail(last_attempt(stage), "broken")
    stage.work.using(id="two", attempts=1, key="k").enqueue(2)
    stage.app.fail(stage.lease(), "broken")
    return "one"


def crowd(stage: Stage) -> None:
    """Something due, something expired for good, something expired, something ready."""
    stage.work.using(id="dead", attempts=1).enqueue(1)
    stage.lease()
    stage.work.using(id="expired").enqueue(2)
    stage.lease()
    stage.work.using(id="due", run_after=LEASE).enqueue(3)
    stage.work.using(id="ready", priority=101).enqueue(4)
    stage.clock.advance(LEASE + 1)


def history(stage: Stage) -> None:
    """Five that ended, with keys of every scope, and one that has not."""
    for number, scope in enumerate(["forever", "active", 3600.0, "forever"]):
        stage.work.using(id=f"old-{number}", key=Key("k", number, scope=scope), tags=["x"]).enqueue(number)  # type: ignore[arg-type]
        stage.app.finish(stage.lease(), 1)
    stage.app.fail(last_attempt(stage), "broken")
    stage.work.using(id="open").enqueue(9)
    stage.clock.advance(60)


def bulk(stage: Stage, _: Any) -> object:
    keyed, later = stage.work.using(key="k"), stage.work.using(run_after=9, tags=["x"])
    return stage.app.enqueue_many([*(stage.work.bind(n) for n in range(4)), keyed.bind(4), later.bind(5), keyed.bind(6)])


SCENES = [
    Scene("enqueue", lambda stage, _: stage.work.enqueue(1)),
    Scene("enqueue in a lane that is known", lambda stage, _: stage.work.enqueue(1), one_ready),
    Scene(
        "enqueue with everything",
        lambda stage, _: stage.work.using(id="mine", run_after=9, tags=["a", "b"], meta={"m": 1}, parent="p", key="k").enqueue(1),
    ),
    Scene("enqueue with an id", lambda stage, _: stage.work.using(id="mine").enqueue(1), again=(Conflict,)),
    Scene("enqueue under a key that is held", lambda stage, _: stage.work.using(key="k").enqueue(1), last_attempt),
    Scene(
        "enqueue and replace a running job",
        lambda stage, _: stage.work.using(key=Key("k", conflict="replace")).enqueue(1),
        last_attempt,
    ),
    Scene("enqueue many", bulk),
    Scene("enqueue many that are alike", lambda stage, _: stage.app.enqueue_many(map(stage.work.bind, range(4))), one_ready),
    Scene("claim", lambda stage, _: stage.app.claim(worker="hand"), one_ready),
    Scene("claim with everything to tend", lambda stage, _: stage.app.claim(worker="hand"), crowd),
    Scene("expire and promote only", lambda stage, _: stage.app.claim(queues=["nowhere"]), crowd),
    Scene("renew", lambda stage, lease: stage.app.renew(lease), one_leased),
    Scene("finish", lambda stage, lease: stage.app.finish(lease, 1), one_leased, (LeaseLost,)),
    Scene("finish with a meter", lambda stage, lease: stage.app.finish(lease, 1, meter={"n": 1}), one_leased, (LeaseLost,)),
    Scene("back off", lambda stage, lease: stage.app.fail(lease, "broken"), one_leased, (LeaseLost,)),
    Scene("fail", lambda stage, lease: stage.app.fail(lease, "broken"), last_attempt, (LeaseLost,)),
    Scene("snooze", lambda stage, lease: stage.app.fail(lease, Snooze(5)), one_leased, (LeaseLost,)),
    Scene("skip by lease", lambda stage, lease: stage.app.skip(lease, "no need"), one_leased, (LeaseLost,)),
    Scene("release", lambda stage, lease: stage.app.release(lease), one_leased, (LeaseLost,)),
    Scene("cancel a ready job", lambda stage, job: stage.app.cancel(job), one_ready, (IllegalMove,)),
    Scene("cancel a running job", lambda stage, lease: stage.app.cancel(lease.job.id), one_leased, (IllegalMove,)),
    Scene(
        "cancel a scheduled job",
        lambda stage, job: stage.app.cancel(job),
        lambda stage: stage.work.using(run_after=5).enqueue(1).id,
        (IllegalMove,),
    ),
    Scene("skip a ready job", lambda stage, job: stage.app.skip(job, "no need"), one_ready, (IllegalMove,)),
    Scene("retry and take the key back", lambda stage, job: stage.app.retry(job), failed_and_replaced, (IllegalMove,)),
    Scene("delete", lambda stage, job: stage.app.delete(job), failed_and_replaced, (HoldfastError,)),
    Scene("finish and tell", lambda stage, lease: stage.app.finish(lease, 1), one_to_be_told, (LeaseLost,)),
    Scene(
        "replace and tell",
        lambda stage, _: stage.work.using(key=Key("k", conflict="replace"), callback=CALLBACK).enqueue(1),
        one_to_be_told,
    ),
    Scene("tell again", lambda stage, job: stage.app.redeliver(job), one_told),
    Scene("prune", lambda stage, _: stage.app.prune(30), history),
]
