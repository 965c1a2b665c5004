"""The axes of a study: blocks of rows that combine as a product, the last varying fastest."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from prfaas_opt.study.ranges import Range
from prfaas_opt.study.rows import UNSET
from prfaas_opt.study.sampling import Method, points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prfaas_opt.errors import Problem
    from prfaas_opt.io.document import Document
    from prfaas_opt.scenario import Objective
    from prfaas_opt.study.rows import Detail


class Block(Protocol):
    """Rows of values of a few fields."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it sets."""

    def __len__(self) -> int:
        """How many rows it has."""

    def rows(self, indices: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """The rows of these numbers, in this order."""

    def first(self) -> dict[str, Any]:
        """A value of each field."""

    def values_of(self, at: int) -> list[Any]:
        """All values that a field of these may take, each once or more; nothing where they are drawn from a range."""


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of some fields, the last field varying fastest."""

    fields: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return math.prod(map(len, self.values))

    def rows(self, indices: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """The rows of these numbers, in this order."""
        columns, stride = [], len(self)
        for values in self.values:
            stride //= len(values)
            columns.append([values[i] for i in (indices // stride % len(values)).tolist()])
        return list(zip(*columns, strict=True))

    def first(self) -> dict[str, Any]:
        """A value of each field."""
        return {field: values[0] for field, values in zip(self.fields, self.values, strict=True)}

    def values_of(self, at: int) -> list[Any]:
        """All values that a field may take."""
        return list(self.values[at])


@dataclass(frozen=True)
class Listed:
    """Rows as they are written, of ``zip`` or ``list``; ``UNSET`` where a row leaves a field as it is."""

    fields: tuple[str, ...]
    written: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.written)

    def rows(self, indices: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """The rows of these numbers, in this order."""
        return [self.written[i] for i in indices.tolist()]

    def first(self) -> dict[str, Any]:
        """A value of each field."""
        columns = zip(self.fields, zip(*self.written, strict=True), strict=True)
        return {field: next(value for value in column if value is not UNSET) for field, column in columns}

    def values_of(self, at: int) -> list[Any]:
        """All values that a field may take."""
        return [row[at] for row in self.written]


@dataclass(frozen=True)
class Sample:
    """Rows drawn from ranges and choices."""

    method: Method
    count: int
    seed: int
    fields: tuple[str, ...]
    over: tuple[Range | tuple[Any, ...], ...]

    def __len__(self) -> int:
        return self.count

    def rows(self, indices: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """The rows of these numbers, in this order."""
        wanted, places = np.unique(indices, return_inverse=True)
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
        drawn = [points(self.method, len(self.fields), self.seed, int(run[0]), int(run[-1]) + 1) for run in runs]
        shares = np.concatenate(drawn)
        columns = [_values_at(over, shares[:, k].tolist()) for k, over in enumerate(self.over)]
        rows = list(zip(*columns, strict=True))
        return [rows[i] for i in places.tolist()]

    def first(self) -> dict[str, Any]:
        """A value of each field."""
        return {field: _values_at(over, [0.0])[0] for field, over in zip(self.fields, self.over, strict=True)}

    def values_of(self, at: int) -> list[Any]:
        """All values that a field may take; none of a range's."""
        over = self.over[at]
        return [] if isinstance(over, Range) else list(over)


def _values_at(over: Range | tuple[Any, ...], shares: list[float]) -> Sequence[Any]:
    if isinstance(over, Range):
        return over.at(shares)
    return [over[int(share * len(over))] for share in shares]


@dataclass(frozen=True)
class StudyRows:
    """The rows of a study file; none is made before it is asked for."""

    name: str
    base: Document
    fields: tuple[str, ...]
    objective: Objective | None
    blocks: tuple[Block, ...]
    detail: Detail = "plan"

    def __len__(self) -> int:
        return math.prod(map(len, self.blocks))

    def values(self, start: int, stop: int) -> list[tuple[Any, ...]]:
        """Rows ``start`` to ``stop``."""
        if stop <= start:
            return []
        indices = np.arange(start, stop, dtype=np.int64)
        parts, stride = [], len(self)
        for block in self.blocks:
            stride //= len(block)
            parts.append(block.rows(indices // stride % len(block)))
        if len(parts) == 1:
            return parts[0]
        return [tuple(itertools.chain.from_iterable(row)) for row in zip(*parts, strict=True)]

    def values_of(self, at: int) -> list[Any]:
        """All values that a field may take, by its place among the fields; none of a range that is drawn from."""
        for block in self.blocks:
            if at < len(block.fields):
                return block.values_of(at)
            at -= len(block.fields)
        raise IndexError(at)

    def where(self, row: int, field: str) -> str:
        """The place of a row's field; numbers of rows start at 0, as in the column ``row``."""
        return f"row {row} {field}".strip()

    def problems(self, row: int) -> tuple[Problem, ...]:  # noqa: ARG002 a study file is right or refused
        """None: a study file with problems is refused as a whole."""
        return ()
