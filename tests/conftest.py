"""How the tests run: one thread each, hypothesis with the same examples every time and without a limit on time.

A red run is the change's then. ``pytest --hypothesis-profile=explore`` draws others.
"""

from __future__ import annotations

import gc
import os

from hypothesis import settings

# Before numpy is imported: a worker of pytest has one core, where more threads only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("explore", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as the run: the garbage collector need not look through them time and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
