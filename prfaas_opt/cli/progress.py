"""A line on the terminal while a search takes long."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prfaas_opt.units import format_share

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.search import Progress

PATIENCE_S = 2.0


@contextlib.contextmanager
def progress_line(unit: str) -> Iterator[Callable[[Progress], None]]:
    """Shows the best value so far, the bound and the gap on stderr, after two seconds and only on a terminal.

    Args:
        unit: of the values, for people.
    """
    from rich.console import Console
    from rich.progress import Progress as Line
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda _: None
        return
    line = Line(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=out, transient=True)
    task = line.add_task("searching (Ctrl-C takes the best so far)")
    timer = threading.Timer(PATIENCE_S, line.start)
    timer.daemon = True
    timer.start()

    def show(progress: Progress) -> None:
        if progress.gap_share < 1.0:
            gap = format_share(progress.gap_share)
            words = f"best {progress.value:,.5g} {unit}, bound {progress.bound:,.5g}, gap {gap} (Ctrl-C takes it)"
            line.update(task, description=words)

    try:
        yield show
    finally:
        timer.cancel()
        line.stop()
