"""JSON Lines: an object a row, flat, with every column as a key; what CSV holds as JSON text is JSON here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.study.outputs import Format
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 4096


class JsonLinesFile:
    """Writes JSON Lines."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = UnfinishedFile(path)
        self._schema = schema
        self._encoder = msgspec.json.Encoder()

    def write(self, table: pa.Table) -> None:
        """Adds rows."""
        names = self._schema.names
        columns = [
            _raw(column) if is_json(field) else column.to_pylist()
            for field, column in zip(self._schema, table.columns, strict=True)
        ]
        rows = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
        with writable(self._file.path):
            self._file.stream.write(self._encoder.encode_lines(rows))

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._file.finish()

    def abort(self) -> None:
        """Leaves nothing of the file."""
        self._file.discard()


def is_json(field: pa.Field[Any]) -> bool:
    """Whether a column's texts are JSON."""
    return (field.metadata or {}).get(b"form") == b"json"


def _raw(column: pa.ChunkedArray[Any]) -> list[msgspec.Raw | None]:
    return [None if text is None else msgspec.Raw(text.encode()) for text in column.to_pylist()]


def _read(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    import pyarrow as pa

    from prfaas_opt.study.columns import schema_named

    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
    with path.open("rb") as file:
        schema: pa.Schema | None = None
        for start in itertools.count(0, _ROWS_AT_ONCE):
            lines = list(itertools.islice(file, _ROWS_AT_ONCE))
            if not lines:
                return
            try:
                rows = [decoder.decode(line) for line in lines]
                schema = schema or schema_named(list(rows[0]), columns)
                arrays = [_column(rows, field) for field in schema]
            except (msgspec.DecodeError, KeyError, pa.ArrowException) as error:
                where = f"{path}:{start + 1}"
                raise InputError(Problem("unreadable-file", where, f"is no line of results: {error}")) from None
            yield pa.Table.from_arrays(arrays, schema=schema)


def _column(rows: list[dict[str, msgspec.Raw]], field: pa.Field[Any]) -> pa.Array[Any]:
    import pyarrow as pa

    texts = [bytes(row[field.name]) for row in rows]
    if is_json(field):
        values: list[Any] = [None if text == b"null" else text.decode() for text in texts]
    else:
        values = [msgspec.json.decode(text) for text in texts]
    found: pa.Array[Any] = pa.array(values, field.type)
    return found


FORMAT = Format(".jsonl", "JSON Lines", JsonLinesFile, _read)
