"""What an application can ask: every method sync, and async with an `a` in front, from the same operations.

`Client` is used in two places: the app itself, which commits by its own connection, and `app.on(connection)`, which runs
the same operations inside the caller's transaction.
"""

from __future__ import annotations

from typing import Any

from holdfast.client.acting import Acting
from holdfast.client.by_hand import ByHand
from holdfast.client.callbacks import Callbacks
from holdfast.client.enqueueing import Enqueueing
from holdfast.client.following import Following
from holdfast.client.keys import Keys
from holdfast.client.queues import Queues
from holdfast.client.reading import Reading


class Client(Enqueueing, Reading, Following, Acting, Callbacks, ByHand, Keys, Queues):
    """The whole client API."""

    def on(self, connection: Any) -> Client:
        """The same client inside the caller's transaction."""
        assert self._app is not None
        return self._app.on(connection)
