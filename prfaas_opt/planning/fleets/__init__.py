"""Planning and sizing of any number of clusters, links and models: one linear program over all paths."""

from __future__ import annotations

import signal
import threading


def _load_cvxpy() -> None:
    """Imports cvxpy with Ctrl-C held back: it takes one that falls into a solver's import for a missing solver."""
    interrupted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    holds_back = before is not None and threading.current_thread() is threading.main_thread()
    if holds_back:
        signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        import cvxpy  # noqa: F401
    finally:
        if holds_back:
            signal.signal(signal.SIGINT, before)
    if interrupted:
        signal.raise_signal(signal.SIGINT)


_load_cvxpy()
