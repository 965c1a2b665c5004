"""All that the rows of a study's output depend on, each by its name in words, so that a change can be told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError
from prfaas_opt.io import catalog
from prfaas_opt.io.loading import find
from prfaas_opt.io.wording import printable
from prfaas_opt.io.yaml_file import parse_document
from prfaas_opt.study.work_folder import digest
from prfaas_opt.version import __version__

if TYPE_CHECKING:
    from prfaas_opt.study.rows import Rows

_LIBRARIES = ("numpy", "pyarrow", "scipy")
"""Whose versions may change a last digit or a byte of the output."""
_ROWS_AT_ONCE = 10_000

_NAMED: Mapping[str, catalog.Kind] = {"model": "models", "workload": "workloads"}


def made_from(rows: Rows, inputs: Mapping[str, str], chunk_rows: int) -> dict[str, str]:
    """What the output of a study depends on.

    Args:
        rows: of the study.
        inputs: digests of the files that it was read from, by their name in words.
        chunk_rows: rows of a chunk.
    """
    from prfaas_opt.study.columns import schema_of

    columns = [(column.name, str(column.type)) for column in schema_of(rows)]
    return {
        "the number of rows": str(len(rows)),
        "the objective": str(rows.objective),
        "the detail": rows.detail,
        **inputs,
        "the base scenario": digest(json.dumps([rows.base.name, rows.base.data], default=str).encode()),
        **dict(sorted(_files(rows))),
        "the columns": digest(json.dumps(columns).encode()),
        "the rows of a part": str(chunk_rows),
        "the version of prfaas-opt": __version__,
        **{f"the version of {name}": metadata.version(name) for name in _LIBRARIES},
    }


def _files(rows: Rows) -> Iterator[tuple[str, str]]:
    """Digests of the files of models and workloads that the rows name, and of those that these name."""
    folder = rows.base.folder
    seen: set[Path] = set()
    for key, kind in _NAMED.items():
        names = {each for each in _texts_of(rows, key) if each}
        todo = [(name, folder) for name in sorted(names)]
        while todo:
            name, beside = todo.pop()
            try:
                path = find(kind, name, "", beside).resolve()
                raw = path.read_bytes()
                data = parse_document(raw.decode("utf-8-sig"), name).data if path not in seen else None
            except (InputError, OSError, UnicodeDecodeError):
                continue  # a row that names it ends with this error
            seen.add(path)
            yield f"{key} {printable(name)}", digest(raw)
            known = catalog.entries(kind, path.parent)
            inside = (text for text in _texts(data) if text in known or catalog.looks_like_path(text))
            todo += [(text, path.parent) for text in set(inside)]


def _texts_of(rows: Rows, key: str) -> set[str]:
    """Texts that may name a model, or a workload, in the base or in any row."""
    found = {text for value in _under(rows.base.data, key) for text in _texts(value)}
    at = [i for i, field in enumerate(rows.fields) if field.rpartition(".")[2] == key]
    holders = [i for i, field in enumerate(rows.fields) if field.partition(".")[0] == "traffic" and i not in at]
    values = getattr(rows, "values_of", None)
    for i in [*at, *holders]:
        column = values(i) if values else _column(rows, i)
        found.update(text for value in column for text in _texts(value))
    return found


def _column(rows: Rows, at: int) -> Iterator[Any]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        for row in rows.values(start, min(start + _ROWS_AT_ONCE, len(rows))):
            yield row[at]


def _under(data: Any, key: str) -> Iterator[Any]:
    """The values of a key, at any depth."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name == key:
                yield value
            yield from _under(value, key)
    elif isinstance(data, list):
        for item in data:
            yield from _under(item, key)


def _texts(data: Any) -> Iterable[str]:
    """All texts in plain data."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
