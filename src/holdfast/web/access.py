"""Who asks: what a caller may do, and the dependency by which a route says what it needs.

The gate finds out who it is and puts a `Caller` into the request. A route without a caller answers 401, so that to forget the
gate opens nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast.domain.access import Scope
from holdfast.web.paths import id_in
from holdfast.web.problem import Problem

_BEARER: Final = HTTPBearer(auto_error=False, description="An API key, made with `holdfast keys add`.", scheme_name="key")


async def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who was let in."""

    name: str
    scope: Scope
    queues: frozenset[str] | None = None
    """None: all of them."""
    identity: str = ""
    """Tells callers apart whose keys have the same name: the key's prefix."""
    job: str | None = None
    """The only one that this caller may see: of who came with a ticket."""
    recheck: Callable[[], Awaitable[bool]] = field(default=_always, compare=False, repr=False)

    def may(self, scope: Scope) -> bool:
        return self.scope.includes(scope)

    def may_see(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    async def is_current(self) -> bool:
        """Whether the caller would be let in again now. Cheap: ask it of an open stream at every heartbeat."""
        return await self.recheck()


LOCAL: Final = Caller("local", Scope.ADMIN, identity="local")


class Needs:
    """The dependency: it gives the caller, or refuses."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(
        self, request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None
    ) -> Caller:
        caller = getattr(request.state, "caller", None)
        if not isinstance(caller, Caller) or (caller.job is not None and caller.job != id_in(request.path_params.get("id", ""))):
            raise unknown()
        if not caller.may(self.scope):
            raise Problem(403, f"this needs a key with scope {self.scope}, and that of {caller.name!r} has {caller.scope}")
        return caller


def needs(scope: Scope) -> Any:
    """`caller: Caller = needs(Scope.READ)`."""
    return Depends(_NEEDS[scope])


_NEEDS: Final = {scope: Needs(scope) for scope in Scope}


_ASK: Final = "this needs an API key or, while there is none, what `holdfast token` prints: send it as `Authorization: Bearer …`"


def unknown(detail: str = _ASK) -> Problem:
    return Problem(401, detail, headers={"www-authenticate": 'Bearer realm="holdfast"'})


__all__ = ["LOCAL", "Caller", "Needs", "Scope", "needs", "unknown"]
