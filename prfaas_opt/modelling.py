"""The modelling language, imported with Ctrl-C held back: cvxpy takes one that falls into it for a missing solver.

What solves a program takes cvxpy from here, never from itself; atoms are classes, which are typed.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Delivers a Ctrl-C of the body when the body has ended; Python hears signals in the main thread only."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupts:
        signal.raise_signal(signal.SIGINT)


with _interrupts_held_back():
    import cvxpy as cp
    from cvxpy.atoms.affine.binary_operators import multiply
    from cvxpy.atoms.affine.sum import Sum
    from cvxpy.atoms.elementwise.huber import huber
    from cvxpy.atoms.norm1 import norm1

__all__ = ["Sum", "cp", "huber", "multiply", "norm1"]
