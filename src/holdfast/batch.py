"""What `enqueue_many` gives back: a million jobs as a few numbers, read from the store only when they are looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import overload

from holdfast.domain.job import Job
from holdfast.errors import JobNotFound
from holdfast.store.enqueue import Accepted

PAGE = 500


class Ids(Sequence[str]):
    """The ids of all jobs of a batch, in the order in which they were given."""

    def __init__(self) -> None:
        self._chunks: list[Accepted] = []
        self._starts: list[int] = []
        self._count = 0

    def _add(self, accepted: Accepted) -> None:
        self._starts.append(self._count)
        self._chunks.append(accepted)
        self._count += accepted.count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        at = index + self._count if index < 0 else index
        if not 0 <= at < self._count:
            raise IndexError(f"job {index} of {self._count}")
        chunk = bisect_right(self._starts, at) - 1
        return self._chunks[chunk].id(at - self._starts[chunk])

    def created(self) -> int:
        """How many of them are new, and not found by their key."""
        return self._count - sum(len(chunk.existing) for chunk in self._chunks)


class Counted:
    """What both kinds of batch have without a look at the store."""

    def __init__(self) -> None:
        self.ids = Ids()

    @property
    def created(self) -> int:
        """How many of them are new, and not found by their key."""
        return self.ids.created()

    def __len__(self) -> int:
        return len(self.ids)


class Batch(Counted, Sequence[Job]):
    """The jobs of one `enqueue_many`: `len`, `.ids`, `.created`, and the jobs themselves, read as they are now."""

    def __init__(self, load: Callable[[Sequence[str]], dict[str, Job]]) -> None:
        super().__init__()
        self._load = load

    @overload
    def __getitem__(self, index: int) -> Job: ...
    @overload
    def __getitem__(self, index: slice) -> list[Job]: ...
    def __getitem__(self, index: int | slice) -> Job | list[Job]:
        ids = self.ids[index] if isinstance(index, slice) else [self.ids[index]]
        jobs = in_order(ids, self._load(ids))
        return jobs if isinstance(index, slice) else jobs[0]

    def __iter__(self) -> Iterator[Job]:
        for start in range(0, len(self), PAGE):
            yield from self[start : start + PAGE]


class AsyncBatch(Counted):
    """The same for `aenqueue_many`: `async for job in batch`."""

    def __init__(self, load: Callable[[Sequence[str]], Awaitable[dict[str, Job]]]) -> None:
        super().__init__()
        self._load = load

    async def __aiter__(self) -> AsyncIterator[Job]:
        for start in range(0, len(self), PAGE):
            ids = self.ids[start : start + PAGE]
            for job in in_order(ids, await self._load(ids)):
                yield job


def in_order(ids: Sequence[str], jobs: dict[str, Job]) -> list[Job]:
    for id in ids:
        if id not in jobs:
            raise JobNotFound(f"there is no job {id!r} any more; it was deleted or pruned since it was enqueued")
    return [jobs[id] for id in ids]
