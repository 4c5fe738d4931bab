"""Who asks, over HTTP: REST and live streams for an app, alone or mounted in somebody else's application.

It needs FastAPI, which the core does without: the extra `[web]` brings it.
"""

from importlib.util import find_spec

if find_spec("fastapi") is None:
    raise ModuleNotFoundError("holdfast.web needs fastapi, which is not installed: pip install 'holdfast[web]'", name="fastapi")

from holdfast.web.app import create_app
from holdfast.web.lifespan import lifespan
from holdfast.web.settings import WebSettings

__all__ = ["WebSettings", "create_app", "lifespan"]
