"""CSV (RFC 4180): numbers at full precision, nothing where there is no value, texts that no spreadsheet runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.study.outputs import Format
from prfaas_opt.study.outputs.texts import as_written, harmless
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 2**23
"""Read at once; a row must fit."""


class CsvFile:
    """Writes CSV: texts are quoted, so that a text of no characters is told from none."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pyarrow import csv

        self._file = UnfinishedFile(path)
        # The stubs know fewer options than the library.
        options = csv.WriteOptions(eol="\r\n")  # type: ignore[call-arg]
        self._writer = csv.CSVWriter(self._file.stream, schema, write_options=options)

    def write(self, table: pa.Table) -> None:
        """Adds rows."""
        with writable(self._file.path):
            self._writer.write_table(_each_text(table, harmless))

    def close(self) -> None:
        """Completes the file and gives it its name."""
        with writable(self._file.path):
            self._writer.close()
        self._file.finish()

    def abort(self) -> None:
        """Leaves nothing of the file."""
        self._file.discard()


def _each_text(table: pa.Table, change: Any) -> pa.Table:
    """A table with all its texts changed."""
    import pyarrow as pa

    columns = [change(column) if pa.types.is_string(column.type) else column for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _read(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    import csv as rows_of

    import pyarrow as pa
    from pyarrow import csv

    from prfaas_opt.study.columns import schema_named

    with path.open(encoding="utf-8-sig", newline="") as text:
        names = next(rows_of.reader(text), [])
    schema = schema_named(names, columns)
    options = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    parsing = csv.ParseOptions(newlines_in_values=True)
    reading = csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    with csv.open_csv(path, read_options=reading, parse_options=parsing, convert_options=options) as file:
        for batch in file:
            yield _each_text(pa.Table.from_batches([batch]).cast(schema), as_written)


FORMAT = Format(".csv", "CSV", CsvFile, _read)
