"""Formats of benchmarks: which figures of a tool's output are prefill latencies and decode steps.

Each module of this package reads the output of one tool; a new file is a new format. Its ``FORMAT`` tells files of the
format from all others by their content, never by their name. A reader asks for the fields that the tool writes, notes
what is wrong with them, and leaves out, with the reason, what is no latency of a prompt alone.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable

if TYPE_CHECKING:
    from prfaas_opt.io.benchmark_file import BenchmarkFile
    from prfaas_opt.io.benchmark_runs import Findings


@dataclass(frozen=True)
class BenchmarkFormat:
    """What one tool writes.

    Attributes:
        name: of the tool, as provenance gives it.
        matches: whether a file is of this format; no file is of two.
        read: takes what a file tells; what is wrong it notes in the file's contexts.
    """

    name: str
    matches: Callable[[BenchmarkFile], bool]
    read: Callable[[BenchmarkFile, Findings], None]


def format_of(file: BenchmarkFile) -> BenchmarkFormat:
    """The format that a file is of.

    Raises:
        InputError: it is of none.
    """
    for found in benchmark_formats():
        if file.records and found.matches(file):
            return found
    if not file.records:
        message = "holds no run, expected one at least"
        raise InputError(Problem("empty-run", file.name, message, "run it again, or name another file"))
    names = ", ".join(each.name for each in benchmark_formats())
    some = ", ".join(printable(key) for key in sorted(file.keys)[:5] if key)
    message = "is of no format that is known" + (f": it has the fields {some}" if some else ": it has no fields")
    fix = (
        f"name the output of one of {names}; of GuideLLM the JSON, of AIPerf and GenAI-Perf the summary; a CSV of your "
        "own has the columns length_tokens and prefill_s"
    )
    raise InputError(Problem("unknown-format", file.name, message, fix))


@cache
def benchmark_formats() -> tuple[BenchmarkFormat, ...]:
    """Every format, from the modules of this package."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    return tuple(module.FORMAT for module in modules)
