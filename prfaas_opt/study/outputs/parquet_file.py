"""Parquet: typed, compressed, with units and descriptions of its columns; row groups of one size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.study.outputs import Format
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 16_384
"""Rows of a row group: enough that the footer, which describes every column of each, stays small."""


class ParquetFile:
    """Writes Parquet."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._file = UnfinishedFile(path)
        self._writer = pq.ParquetWriter(self._file.stream, schema, compression="zstd")
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Adds rows; a row group is written when it is full."""
        self._waiting.append(table)
        self._rows += len(table)
        if self._rows >= ROW_GROUP:
            self._write_groups(self._rows - self._rows % ROW_GROUP)

    def _write_groups(self, rows: int) -> None:
        import pyarrow as pa

        waiting = pa.concat_tables(self._waiting)
        with writable(self._file.path):
            self._writer.write_table(waiting.slice(0, rows), row_group_size=ROW_GROUP)
        self._waiting, self._rows = [waiting.slice(rows)], self._rows - rows

    def close(self) -> None:
        """Completes the file and gives it its name."""
        if self._rows:
            self._write_groups(self._rows)
        with writable(self._file.path):
            self._writer.close()
        self._file.finish()

    def abort(self) -> None:
        """Leaves nothing of the file."""
        # A writer that is left open closes itself later, and complains that its file is gone.
        with contextlib.suppress(OSError):
            self._writer.close()
        self._file.discard()


def _read(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    from prfaas_opt.study.columns import MissingColumnError

    with pq.ParquetFile(path) as file:
        known = file.schema_arrow.names
        unknown = next((name for name in columns or () if name not in known), None)
        if unknown is not None:
            raise MissingColumnError(unknown, known)
        for group in range(file.num_row_groups):
            found = file.read_row_group(group, None if columns is None else list(columns))
            yield found if columns is None else found.select(list(columns))


FORMAT = Format(".parquet", "Parquet", ParquetFile, _read)
