"""What all tests share: how Hypothesis searches, and the fixtures that Holdfast ships."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, so that a red run is red again; HYPOTHESIS_PROFILE=search looks for new ones.
_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=_quiet, print_blob=True)
settings.register_profile("search", max_examples=2_000, deadline=None, suppress_health_check=_quiet, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True)
def no_handlers_left() -> Iterator[None]:
    """The program sets up logging for its process: to a stream that is closed when the test is over."""
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)


def pytest_configure(config: pytest.Config) -> None:
    """In a checkout that is not installed there is no entry point that brings the fixtures."""
    if not config.pluginmanager.hasplugin("holdfast"):
        from holdfast.testing import plugin

        config.pluginmanager.register(plugin, "holdfast")
