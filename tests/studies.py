"""Studies for the tests of running them, and rows that misbehave. They are here so that worker processes find them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from prfaas_opt.study.axes import StudyRows
from prfaas_opt.study.definition import read_study
from prfaas_opt.study.engines.chunk import Chunks
from prfaas_opt.study.outputs import writer_for
from prfaas_opt.study.work_folder import work_folder_of

ROOT = Path(__file__).resolve().parents[1]

STUDY = """name: a study
axes:
  - grid: {links.0.bandwidth: [1Gbps, 10Gbps, 100Gbps], model: [internal-1t, minimax-m2.5]}
  - sample:
      count: 20
      seed: 7
      over: {slo.tokens_per_s: {from: 10, to: 60}, clusters.pd.instances: {from: 1, to: 12}}
"""
"""120 rows; those with more than 40 tokens/s are infeasible, those with one instance too."""

CHUNK_ROWS = 6

RUN = """
from prfaas_opt.study_api import run_study
if __name__ == "__main__":
    run_study({source!r}, {output!r}, workers={workers}, chunk_rows={chunk_rows})
"""


def rows_of_study() -> StudyRows:
    import yaml

    return read_study(yaml.safe_load(STUDY))


@dataclass(frozen=True)
class Deadly(StudyRows):
    """Rows that end the process which asks for one of them.

    Attributes:
        row: that does it.
        marker: a file; where it is named, only until it is there.
    """

    row: int = 0
    marker: str = ""

    def values(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """The rows, if the process lives."""
        if start <= self.row < stop and not (self.marker and Path(self.marker).exists()):
            if self.marker:
                Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().values(start, stop)


@dataclass(frozen=True)
class Buggy(StudyRows):
    """Rows of which some raise what nothing expects."""

    bad: tuple[int, ...] = ()

    def values(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """The rows, if none is bad."""
        for row in self.bad:
            if start <= row < stop:
                raise RuntimeError(f"row {row} is bad")
        return super().values(start, stop)


@dataclass(frozen=True)
class Slow(StudyRows):
    """Rows that take their time."""

    seconds: float = 0.0

    def values(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """The rows, later."""
        time.sleep(self.seconds)
        return super().values(start, stop)


def like(kind: type[StudyRows], **more: Any) -> StudyRows:
    """The study's rows as rows that misbehave."""
    rows = rows_of_study()
    return kind(rows.name, rows.base, rows.fields, rows.objective, rows.blocks, **more)


def start(source: Path, output: Path, workers: int = 1, chunk_rows: int = CHUNK_ROWS) -> subprocess.Popen[str]:
    """A run in a process of its own, in a group of its own."""
    script = source.with_suffix(".run.py")
    script.write_text(
        RUN.format(source=str(source), output=str(output), workers=workers, chunk_rows=chunk_rows), encoding="utf-8"
    )
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def parts_of(output: Path) -> list[Path]:
    """The parts that are done of an output."""
    return sorted(work_folder_of(output).glob("[0-9]*.arrow"))


def wait_for_parts(output: Path, number: int, process: subprocess.Popen[str], patience_s: float = 60.0) -> None:
    """Returns once so many parts are there, or the process has ended."""
    until = time.monotonic() + patience_s
    while len(parts_of(output)) < number and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.0005)


def written(path: Path, *tables: pa.Table) -> Path:
    """A file of results that holds these tables, one after the other."""
    writer = writer_for(path, tables[0].schema)
    for each in tables:
        writer.write(each)
    writer.close()
    return path


CHUNKS = len(Chunks(len(rows_of_study()), CHUNK_ROWS))
