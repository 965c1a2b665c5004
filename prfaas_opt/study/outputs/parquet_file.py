"""Parquet: typed, compressed, with units and descriptions of its columns; a row group for each part of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.study.outputs import Format
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetFile:
    """Writes Parquet."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._file = UnfinishedFile(path)
        self._writer = pq.ParquetWriter(self._file.stream, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        """Adds rows as a row group."""
        with writable(self._file.path):
            self._writer.write_table(table, row_group_size=max(1, len(table)))

    def close(self) -> None:
        """Completes the file and gives it its name."""
        with writable(self._file.path):
            self._writer.close()
        self._file.finish()

    def abort(self) -> None:
        """Leaves nothing of the file."""
        self._file.discard()


def _read(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, None if columns is None else list(columns))


FORMAT = Format(".parquet", "Parquet", ParquetFile, _read)
