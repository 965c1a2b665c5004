"""Planning a chunk of rows, whatever happens in it: what fails is a row with an error code."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from prfaas_opt.study.rows import Rows

INTERNAL = "internal"
"""Code of a row that a bug of this program kept from being planned."""
WORKER_DIED = "worker-died"
"""Code of a row whose planning ended the process that did it, twice."""

_REPORT = "This is a bug in prfaas-opt: report it with the row's input"

_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Chunk:
    """Some rows of a study: its number, the first row, and the one after the last."""

    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class Chunks:
    """The chunks of so many rows; they depend on nothing else."""

    rows: int
    chunk_rows: int

    def __len__(self) -> int:
        return -(-self.rows // self.chunk_rows)

    def __getitem__(self, number: int) -> Chunk:
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = number * self.chunk_rows
        return Chunk(number, start, min(start + self.chunk_rows, self.rows))

    def __iter__(self) -> Iterator[Chunk]:
        return map(self.__getitem__, range(len(self)))

    def rows_of(self, numbers: Iterable[int]) -> int:
        """How many rows these chunks have together."""
        return sum(self[number].stop - self[number].start for number in numbers)


def planned_bytes(rows: Rows, start: int, stop: int) -> bytes:
    """The table of some rows as an Arrow file."""
    with _ONE_AT_A_TIME:  # threads of a Dask worker share what a chunk leaves for the next
        return to_bytes(planned_table(rows, start, stop))


def planned_table(rows: Rows, start: int, stop: int) -> pa.Table:
    """The table of some rows; where planning them fails altogether, it is the row at fault alone that fails."""
    from prfaas_opt.study.chunks import plan_chunk

    try:
        return plan_chunk(rows, start, stop)
    except Exception as error:
        if os.environ.get("PRFAAS_OPT_DEBUG"):
            raise
        if stop - start == 1:
            return marked_row(rows, start, INTERNAL, f"{type(error).__name__}: {error}. {_REPORT}")
    middle = (start + stop) // 2
    return joined([planned_table(rows, start, middle), planned_table(rows, middle, stop)])


def marked_row(rows: Rows, row: int, code: str, message: str) -> pa.Table:
    """The table of one row that could not be planned."""
    import pyarrow as pa

    from prfaas_opt.study.columns import schema_of

    schema = schema_of(rows)
    known = {"row": row, "status": "error", "error_code": code, "error_where": rows.where(row, ""), "error": message}
    arrays = [pa.array([known.get(column.name)], column.type) for column in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def joined(tables: list[pa.Table]) -> pa.Table:
    """Tables of rows that follow each other, as one."""
    import pyarrow as pa

    return pa.concat_tables(tables).combine_chunks()


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow file."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(payload: bytes) -> pa.Table:
    """The table of an Arrow file."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.BufferReader(payload)).read_all()


@dataclass(frozen=True)
class Piece:
    """Rows of a chunk that are planned together, and how often a worker ended while it planned them."""

    chunk: Chunk
    start: int
    stop: int
    deaths: int = 0


@dataclass
class Pieces:
    """Chunks in work, taken apart where they end the workers that plan them, so that only rows at fault are lost.

    Attributes:
        rows: that are planned.
        deaths: workers that ended so far.
    """

    rows: Rows
    deaths: int = 0
    _done: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    @staticmethod
    def whole(chunk: Chunk) -> Piece:
        """A chunk in one piece."""
        return Piece(chunk, chunk.start, chunk.stop)

    def died(self, piece: Piece, deaths: int = 1) -> list[Piece]:
        """What to plan in place of a piece whose worker ended; nothing where it is a row that is marked now."""
        self.deaths += deaths
        deaths += piece.deaths
        if deaths < 2:
            return [Piece(piece.chunk, piece.start, piece.stop, deaths)]
        if piece.stop - piece.start > 1:
            middle = (piece.start + piece.stop) // 2
            return [Piece(piece.chunk, piece.start, middle, 1), Piece(piece.chunk, middle, piece.stop, 1)]
        return []

    def marked(self, piece: Piece) -> bytes:
        """The table of a row that ended its workers."""
        message = "planning this row ended the process that did it, twice: out of memory, or a bug in prfaas-opt"
        return to_bytes(marked_row(self.rows, piece.start, WORKER_DIED, message))

    def finished(self, piece: Piece, payload: bytes) -> bytes | None:
        """The whole chunk, where this was the last of its pieces."""
        chunk = piece.chunk
        if (piece.start, piece.stop) == (chunk.start, chunk.stop):
            return payload
        done = self._done.setdefault(chunk.number, [])
        done.append((piece.start, payload))
        tables = [from_bytes(part) for _, part in sorted(done)]
        if sum(table.num_rows for table in tables) < chunk.stop - chunk.start:
            return None
        del self._done[chunk.number]
        return to_bytes(joined(tables))
