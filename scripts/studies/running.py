"""Runs a study through the command line and gives its rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

Row = dict[str, Any]


def prfaas_opt(*arguments: str) -> None:
    """One command; what goes wrong is shown and ends the run."""
    done = subprocess.run([sys.executable, "-m", "prfaas_opt", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"prfaas-opt {' '.join(arguments)}\n{done.stdout}{done.stderr}")


def report(name: str, folder: Path) -> None:
    """Leaves a report on a study's results beside them."""
    prfaas_opt("study", "report", str(folder / f"{name}.parquet"), "-o", str(folder / f"{name}.md"))


def rows_of(name: str, folder: Path, columns: Sequence[str]) -> list[Row]:
    """The rows of a study that stands here, once it is run; its results are left in a folder."""
    from prfaas_opt.study.outputs.reading import read_results

    results = folder / f"{name}.parquet"
    prfaas_opt("study", str(HERE / f"{name}.yaml"), "-o", str(results), "--fresh", "--strict")
    rows: list[Row] = read_results(results, columns).to_pylist()
    return rows


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first columns hold text, the others numbers."""
    rule = ["---" if at < left else "---:" for at in range(len(headings))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, rule, *rows])
