"""``--set PATH=VALUE``: fields of a document changed from outside."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document, FieldPath, dotted
from prfaas_opt.io.wording import printable, shown
from prfaas_opt.io.yaml_file import parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATH = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[[^.\[\]]+\])*")


class RefusedError(Exception):
    """A path does not fit the document; ``fix`` says what would."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def apply_overrides(document: Document, overrides: Mapping[str, str]) -> Document:
    """A copy of a document with fields set from ``path -> YAML text``.

    Path steps are keys; a number steps into a list, ``links.0.bandwidth`` or ``links[0].bandwidth``. Missing
    mappings are made, so that optional fields can be set. A document that is no mapping is left as it is:
    reading it will fail.

    Raises:
        InputError: paths that do not fit the document and values that are not YAML, all of them at once.

    >>> doc = Document("fleet.yaml", {"links": [{"bandwidth": "1Gbps"}]})
    >>> apply_overrides(doc, {"links.0.bandwidth": "2Gbps", "slo.tokens_per_s": "40"}).data
    {'links': [{'bandwidth': '2Gbps'}], 'slo': {'tokens_per_s': 40}}
    """
    if not isinstance(document.data, dict):
        return document
    changed = copied(document)
    problems: list[Problem] = []
    for text, value_text in overrides.items():
        where = f"--set {printable(text)}".strip()
        try:
            value = parse_document(value_text, where)
            found = [dataclasses.replace(problem, where=where) for problem in value.problems]
            if not found:
                put(changed, text, value.data)
        except InputError as error:
            found = [dataclasses.replace(problem, where=where) for problem in error.problems]
        except RefusedError as error:
            found = [Problem("bad-override", where, str(error), error.fix)]
        problems += found
    if problems:
        raise InputError(problems)
    return changed


def copied(document: Document) -> Document:
    """A document whose fields can be changed without changing this one's."""
    return dataclasses.replace(document, data=_copy(document.data), lines=dict(document.lines))


def _copy(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(item) for item in data] if isinstance(data, list) else data


def steps_of(text: str) -> list[str]:
    """The steps of a field's path.

    >>> steps_of("links[0].bandwidth"), steps_of("clusters.pd")
    (['links', '0', 'bandwidth'], ['clusters', 'pd'])
    """
    return [step for step in re.split(r"[.\[\]]+", text) if step]


def put(document: Document, text: str, value: Any) -> tuple[FieldPath, set[FieldPath]]:
    """Sets a field in place; its path, and the mappings that had to be made for it.

    Raises:
        RefusedError: the path does not fit the document.
    """
    if not _PATH.fullmatch(text):
        raise RefusedError("is not the path of a field", "write it as clusters.pd.instances or links.0.bandwidth")
    steps = steps_of(text)
    path: FieldPath = ()
    container: Any = document.data
    made: set[FieldPath] = set()
    for step in steps[:-1]:
        key = _key(container, step, path)
        path = (*path, key)
        if isinstance(container, dict) and container.get(step) is None:
            container[step] = {}
            made.add(path)
        container = container[key]
    path = (*path, _key(container, steps[-1], path))
    # Another field may be set inside it, and whoever gave it may give it again.
    container[path[-1]] = _copy(value)
    for inner in [p for p in document.lines if p[: len(path)] == path]:
        del document.lines[inner]
    document.lines.update(dict.fromkeys([path, *made], 0))
    document.made = (document.made | made) - {path}
    return path, made


def _key(container: Any, step: str, path: FieldPath) -> str | int:
    """The key or index that a step of a path means in a mapping or a list."""
    if isinstance(container, dict):
        return step
    here = dotted(path) or "the file"
    if not isinstance(container, list):
        raise RefusedError(f"{here} is {shown(container)}, which has no fields", f"set {here} as a whole")
    if step in map(str, range(len(container))):
        return int(step)
    indexes = "0" if len(container) == 1 else f"0 to {len(container) - 1}"
    fix = f"step into it with {indexes}, or set {here} as a whole" if container else f"set {here} as a whole"
    raise RefusedError(f"{here} is {shown(container)}, which has no {printable(step)}", fix)
