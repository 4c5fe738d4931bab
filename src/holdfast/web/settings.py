"""How the web application behaves. Each setting has an environment variable: HOLDFAST_WEB_ and its name in capitals.

`auth`: `on` asks everybody for a key; `off` nobody; `auto` for a key or, as long as none was ever made, for the token.
Bound to another address than loopback, it starts only with a usable key, or if `insecure` lets all come in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.errors import SettingError

PREFIX: Final = "HOLDFAST_WEB_"
BEAT_SECONDS_MAX: Final = 30
"""Of a stream; with as many for what is remembered of a key, a key that is revoked has closed its streams after a minute."""
_Positive = Annotated[int, Meta(ge=1)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400 * 366)]


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the HTTP API and the page are served: who is let in, and the bounds on what a client may ask for."""

    auth: Literal["auto", "on", "off"] = "auto"
    token: Annotated[str, Meta(pattern=r"^([!-~]{20,200})?$")] = ""
    """What opens everything while there is no key; if not given, a secret in a file that `holdfast token` prints."""
    insecure: bool = False
    """Serve other machines without any key."""
    hosts: tuple[str, ...] = ()
    """Names under which it is reached, beside those of loopback and the address it is bound to; `*` for any."""
    health_open: bool = False
    """Let /healthz answer without a key: for a load balancer."""
    body_bytes_max: _Positive = 1024 * 1024
    body_seconds: _Seconds = 30.0
    """How long a body may take to arrive."""
    url_bytes_max: _Positive = 8 * 1024
    requests_per_second: _Positive = 1_000
    """Of one caller, for long; for a short time twice as many."""
    streams_per_caller_max: _Positive = 5_000
    stalled_seconds: _Seconds = 60.0
    """How long a job may be ready, beside a worker with room or without any, before /healthz fails."""
    heartbeat_seconds: Annotated[float, Meta(gt=0, le=BEAT_SECONDS_MAX)] = 15.0
    reconnect_seconds: _Seconds = 2.0
    """What a stream tells a browser to wait before it comes back."""
    session_seconds: _Seconds = 12 * 3600.0
    ticket_seconds: _Seconds = 30.0
    recheck_seconds: Annotated[float, Meta(ge=0, le=BEAT_SECONDS_MAX)] = 15.0
    """How long a key that was verified is taken for good: revoking it takes effect after that at the latest."""

    def __post_init__(self) -> None:
        """What Python code says is checked as what the environment says."""
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                shown = "…" if field.name == "token" else repr(value)
                raise SettingError(f"{field.name}={shown}: {_words(error)}") from None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None) -> WebSettings:
        given = os.environ if environment is None else environment
        said = {name.removeprefix(PREFIX).lower(): text for name, text in given.items() if name.startswith(PREFIX)}
        values: dict[str, Any] = {}
        for name, text in said.items():
            if name not in cls.__struct_fields__:
                raise SettingError(f"{PREFIX}{name.upper()} is unknown; known: {', '.join(cls.__struct_fields__)}, in capitals")
            values[name] = _listed(text) if name == "hosts" else text.strip() if name == "token" else _converted(name, text)
        return cls(**values)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _converted(name: str, text: str) -> Any:
    try:
        settings = msgspec.convert({name: text.strip().lower()}, WebSettings, strict=False)
        return getattr(settings, name)
    except msgspec.ValidationError as error:
        raise SettingError(f"{PREFIX}{name.upper()}={text!r}: {_words(error)}") from None


def _words(error: msgspec.ValidationError) -> str:
    said = str(error).partition(" - at")[0].replace("`", "").replace("Invalid enum value", "use auto, on or off, not")
    return said[:1].lower() + said[1:]
