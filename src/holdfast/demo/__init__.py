"""`holdfast demo`: real jobs, two real workers, one of them killed, and a page to watch it; its story takes half a minute.

`story` tells it act by act; `stage` has the directory, the database and the worker processes; `watch` follows the store;
`live` and `plain` show it on a terminal and in a pipe, `page` in a browser; `verdict` judges the end from the ledger that the
tasks wrote; `after` keeps the page up for a while.
"""

from holdfast.demo.story import run

__all__ = ["run"]
