"""A file of results as arrays: only what a report needs of it, read part by part."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable
from prfaas_opt.results import SCHEMA_VERSION
from prfaas_opt.study.columns import INPUT
from prfaas_opt.study.outputs.reading import read_in_parts
from prfaas_opt.study.report.measures import BREAK_EVEN, COST_RATIO, MEASURES, OFFLOADED, RATIO

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

ROW, STATUS, BOTTLENECKS, NAME = "row", "status", "bottlenecks", "name"
_SERVED = MEASURES["throughput"].column
_NEEDED = (ROW, STATUS, _SERVED)
LEAST_COST = "cost.least_usd_per_thousand_requests"
_FIGURES = (*(each.column for each in MEASURES.values()), BREAK_EVEN.column, LEAST_COST, RATIO, COST_RATIO, OFFLOADED)
_LABELS = (f"{INPUT}name",)
"""Inputs that tell scenarios apart and plan nothing."""


@dataclass
class Levels:
    """A column whose values repeat: a number for each distinct one.

    Attributes:
        name: of the column.
        codes: of each row, the place of its value among the distinct ones.
        values: distinct values in order, nothing (null) first; an array where they are numbers, NaN being null.
        unit: in words.
    """

    name: str
    codes: NDArray[np.int64]
    values: Sequence[Any] | NDArray[np.float64]
    unit: str = ""

    @property
    def count(self) -> int:
        """How many distinct values there are."""
        return len(self.values)

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return isinstance(self.values, np.ndarray)

    @cached_property
    def has_null(self) -> bool:
        """Whether the first level stands for rows without a value."""
        if isinstance(self.values, np.ndarray):
            return bool(len(self.values)) and bool(np.isnan(self.values[0]))
        return bool(self.values) and self.values[0] is None

    def plain(self, code: int) -> Any:
        """A value as JSON has it: whole numbers without a point."""
        if not isinstance(self.values, np.ndarray):
            return self.values[code]
        number = float(self.values[code])
        if np.isnan(number):
            return None
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


@dataclass
class Frame:
    """What a report is made of, a value a row.

    Attributes:
        path: of the file.
        study: name of the study, where the file has it.
        rows: the rows' own numbers.
        status: of each plan.
        bottlenecks: of each plan; None where the file has none.
        figures: by column, NaN where there is none.
        inputs: what went in.
        names: whether scenarios have names of their own.
    """

    path: Path
    study: str | None
    rows: NDArray[np.int64]
    status: Levels
    bottlenecks: Levels | None
    figures: dict[str, NDArray[np.float64]]
    inputs: list[Levels]
    names: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def planned(self) -> NDArray[np.bool_]:
        """Which rows have a plan."""
        found: NDArray[np.bool_] = ~np.isnan(self.figures[_SERVED])
        return found

    def has(self, column: str) -> bool:
        """Whether any row has a figure in a column."""
        return column in self.figures and not bool(np.isnan(self.figures[column]).all())


def read_frame(path: Path) -> Frame:
    """The frame of a file of results.

    Raises:
        InputError: it is none, is broken, is of another version, or has no rows.
    """
    import pyarrow as pa

    schema = _schema_of(path)
    names = schema.names
    missing = [name for name in _NEEDED if name not in names]
    inputs = [name for name in names if name.startswith(INPUT) and name not in _LABELS]
    where = printable(str(path))
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        message = f"has no column {listed}: it holds no results of a study"
        raise InputError(Problem("wrong-file", where, message, "name a file that prfaas-opt study -o wrote"))
    _check_version(schema, where)
    labels = [name for name in (BOTTLENECKS,) if name in names]
    figures = [name for name in _FIGURES if name in names]
    reader = _Reader(inputs, [STATUS, *labels], figures)
    try:
        for part in read_in_parts(path, [ROW, STATUS, *labels, *figures, *inputs]):
            reader.add(part)
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        message = f"has a column that is not as study writes it: {reason}"
        raise InputError(Problem("unreadable-file", where, message, "name a file that study wrote")) from None
    rows = reader.rows()
    if not len(rows):
        raise InputError(Problem("empty-file", where, "holds no rows", "run the study again"))
    _check_rows(rows, where)
    found = {name: column.levels(name, _unit(schema, name)) for name, column in reader.levels.items()}
    return Frame(
        path,
        (schema.metadata or {}).get(b"study", b"").decode(errors="replace") or None,
        rows,
        found[STATUS],
        found.get(BOTTLENECKS),
        {name: reader.column(name) for name in figures},
        [found[name] for name in inputs],
        names=NAME in names and _LABELS[0] in names,
    )


def names_of(frame: Frame, rows: Sequence[int]) -> dict[int, str]:
    """The names of some rows' scenarios; nothing where all have the name of the base."""
    if not frame.names or not rows:
        return {}
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(rows), pa.int64())
    found: dict[int, str] = {}
    for part in read_in_parts(frame.path, [ROW, NAME]):
        some = part.filter(pc.is_in(part[ROW], value_set=wanted))
        pairs: Iterator[tuple[Any, Any]] = zip(some[ROW].to_pylist(), some[NAME].to_pylist(), strict=True)
        found |= {row: name for row, name in pairs if name is not None}
    return found


def _schema_of(path: Path) -> pa.Schema:
    """Names and types of a file's columns."""
    if path.suffix.lower() == ".parquet" and path.is_file():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_schema(path)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            message = f"cannot be read as Parquet: {reason}"
            fix = "name a file that study wrote, in full"
            raise InputError(Problem("unreadable-file", printable(str(path)), message, fix)) from None
    _check_end(path)
    part = next(read_in_parts(path), None)
    if part is None:
        raise InputError(Problem("empty-file", printable(str(path)), "holds no rows", "run the study again"))
    return part.schema


def _check_end(path: Path) -> None:
    """Raises that a text file is cut: a reader would take the last row for a whole one."""
    if not path.is_file() or path.suffix.lower() not in (".csv", ".jsonl"):
        return
    with path.open("rb") as file:
        file.seek(-min(1, path.stat().st_size), os.SEEK_END)
        if file.read() not in (b"", b"\n"):
            message = "ends in the middle of a row: it is not whole"
            raise InputError(Problem("unreadable-file", printable(str(path)), message, "run the study again"))


def _check_version(schema: pa.Schema, where: str) -> None:
    version = (schema.metadata or {}).get(b"schema_version")
    if version is not None and version != str(SCHEMA_VERSION).encode():
        message = f"has schema_version {printable(version.decode(errors='replace'))}, expected {SCHEMA_VERSION}"
        raise InputError(Problem("wrong-version", where, message, "run the study again with this version"))


def _check_rows(rows: NDArray[np.int64], where: str) -> None:
    if len(np.unique(rows)) < len(rows):
        sorted_rows = np.sort(rows)
        twice = int(sorted_rows[1:][np.diff(sorted_rows) == 0][0])
        message = f"has row {twice} more than once: several studies in one file"
        raise InputError(Problem("duplicate-key", where, message, "report on one study at a time"))


def _unit(schema: pa.Schema, name: str) -> str:
    return (schema.field(name).metadata or {}).get(b"unit", b"").decode(errors="replace")


@dataclass
class _Column:
    """A column whose values repeat, taken part by part."""

    numeric: bool = False
    parts: list[NDArray[Any]] = field(default_factory=list)
    known: dict[str | None, int] = field(default_factory=dict)

    def add(self, values: pa.ChunkedArray[Any]) -> None:
        """Takes the values of some rows."""
        import pyarrow as pa

        if self.numeric:
            self.parts.append(_numbers(values))
            return
        whole = values.cast(pa.string()).combine_chunks().dictionary_encode()
        for chunk in whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]:
            texts = chunk.dictionary.to_pylist()
            places = np.array([self.known.setdefault(text, len(self.known)) for text in texts], dtype=np.int64)
            codes = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            null = self.known.setdefault(None, len(self.known)) if chunk.null_count else 0
            self.parts.append(np.append(places, null)[codes])

    def levels(self, name: str, unit: str) -> Levels:
        """The whole column."""
        short = name.removeprefix(INPUT)
        whole = np.concatenate(self.parts)
        self.parts.clear()
        if self.numeric:
            values, codes = np.unique(whole, return_inverse=True)
            if len(values) and np.isnan(values[-1]):  # null first
                values, codes = np.roll(values, 1), (codes + 1) % len(values)
            return Levels(short, codes.astype(np.int64), values, unit)
        ordered = sorted(self.known, key=lambda text: (text is not None, text or ""))
        place = np.empty(len(ordered), dtype=np.int64)
        place[[self.known[text] for text in ordered]] = np.arange(len(ordered))
        return Levels(short, place[whole], ordered, unit)


class _Reader:
    """Takes a file's parts."""

    def __init__(self, inputs: Sequence[str], labels: Sequence[str], figures: Sequence[str]) -> None:
        self.levels = {name: _Column() for name in [*labels, *inputs]}
        self.figures: dict[str, list[NDArray[np.float64]]] = {name: [] for name in figures}
        self._rows: list[NDArray[np.int64]] = []
        self._inputs = inputs

    def add(self, part: pa.Table) -> None:
        """Takes some rows."""
        import pyarrow as pa

        rows = part[ROW].cast(pa.int64())
        if rows.null_count:
            raise ValueError(f"a {ROW} is empty")
        self._rows.append(rows.combine_chunks().to_numpy(zero_copy_only=False))
        for name in self._inputs:
            kind = part.schema.field(name).type
            self.levels[name].numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        for name, column in self.levels.items():
            column.add(part[name])
        for name, figures in self.figures.items():
            figures.append(_numbers(part[name]))

    def column(self, name: str) -> NDArray[np.float64]:
        """The figures of a column, which are given away."""
        return np.concatenate(self.figures.pop(name))

    def rows(self) -> NDArray[np.int64]:
        """The numbers of all rows."""
        return np.concatenate(self._rows) if self._rows else np.empty(0, dtype=np.int64)


def _numbers(values: pa.ChunkedArray[Any]) -> NDArray[np.float64]:
    """Numbers, NaN where there is none and where one is not finite."""
    import pyarrow as pa

    found = np.array(values.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False), dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    return found
