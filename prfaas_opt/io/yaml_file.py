"""YAML with numbers as people mean them and nothing that surprises: 1e-4 is a number, 1:30 and "on" are text.

Keys are texts, anchors and merge keys work, other tags do not; a key that stands twice is an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml
from yaml.reader import Reader

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import DEEPEST, UNREADABLE, Document, FieldPath
from prfaas_opt.io.files import read_text
from prfaas_opt.io.wording import printable, shown

if TYPE_CHECKING:
    from pathlib import Path

_MOST_VALUES = 1_000_000
_TAG = "tag:yaml.org,2002:"
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing"}


_OWN_RESOLVERS = (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", "tTfF"),
    ("int", r"[-+]?[0-9]+\Z", "-+0123456789"),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z",
        "-+0123456789.",
    ),
)


def loader_class(base: Any) -> Any:
    """A YAML loader with these scalars: null, true, false, decimal numbers; anything else is text."""
    kept = {
        first: [resolver for resolver in resolvers if resolver[0] in {f"{_TAG}null", f"{_TAG}merge"}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (base,), {"yaml_implicit_resolvers": kept})
    for kind, pattern, first in _OWN_RESOLVERS:
        loader.add_implicit_resolver(f"{_TAG}{kind}", re.compile(pattern), list(first))
    return loader


_LOADER = loader_class(getattr(yaml, "CSafeLoader", yaml.SafeLoader))

_SCALARS: dict[str, Any] = {
    f"{_TAG}null": lambda _text: None,
    f"{_TAG}bool": {"true": True, "false": False}.__getitem__,
    f"{_TAG}int": int,
    f"{_TAG}float": lambda text: float(text.replace(".inf", "inf").replace(".nan", "nan")),
}


def read_document(path: Path, kind: str) -> Document:
    """Reads a YAML file.

    Raises:
        InputError: the file is missing, unreadable, or not YAML.
    """
    name, text = read_text(path, f"{kind} file", "YAML")
    return parse_document(text, name, path.parent)


def parse_document(text: str, name: str, folder: Path | None = None) -> Document:
    """Parses YAML text.

    Raises:
        InputError: it is not YAML.
    """
    reader = _NodeReader(name)
    node = _composed(text, name)
    data = reader.value(node, (), ()) if node is not None else None
    return Document(name, data, reader.lines, folder, tuple(reader.problems))


def _composed(text: str, name: str) -> yaml.Node | None:
    odd = Reader.NON_PRINTABLE.search(text)
    if odd:
        line = text.count("\n", 0, odd.start()) + 1
        what = f"holds the character U+{ord(odd[0]):04X}, expected YAML text"
        raise InputError(Problem("unreadable-file", f"{name}:{line}", what, "leave it out, or save the file as UTF-8"))
    loader = _LOADER(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise InputError(_not_yaml(error, text, name)) from None
    except RecursionError:
        raise InputError(_too_deep(f"{name}:{getattr(loader, 'line', 0) + 1}")) from None
    finally:
        loader.dispose()
    return node


def _too_deep(where: str) -> Problem:
    return Problem("not-yaml", where, f"is nested deeper than {DEEPEST} levels", "check brackets and anchors")


_WORDS = (
    ("another document", "holds a second document, expected one", "keep one, and no line ---"),
    ("undefined alias", "names an anchor that is not defined above", "define it as &name before *name"),
    ("duplicate anchor", "defines an anchor a second time", "give every anchor its own name"),
)
_JARGON = {
    "flow mapping": "{...}",
    "flow sequence": "[...]",
    "block mapping": "mapping",
    "block sequence": "list",
    "quoted scalar": "quoted text",
    "plain scalar": "text",
    " in this context": " here",
}


def _not_yaml(error: yaml.MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark
    line, column = (mark.line + 1, mark.column) if mark else (1, 0)
    start = error.context_mark.line + 1 if error.context_mark else line
    context, problem = error.context or "", error.problem or ""
    where = f"{name}:{line}"
    for words, message, fix in _WORDS:
        if words in f"{context} {problem}":
            return Problem("not-yaml", where, message, fix)
    if "nesting depth" in problem:
        return _too_deep(where)
    if "quoted scalar" in context and "end of stream" in problem:
        return Problem("not-yaml", f"{name}:{start}", "opens a quote that is never closed", "close it")
    source = (text.splitlines()[line - 1 : line] or [""])[0]
    if "cannot start any token" in problem:
        found = source[column : column + 1]
        if found == "\t":
            return Problem("not-yaml", where, "is indented with a tab, expected spaces", "use spaces")
        message = f"is not YAML: no text starts with {found} unless it is in quotes"
        return Problem("not-yaml", where, message, "put the text in quotes")
    what = f"{context} from line {start}, {problem}" if context and start < line else problem
    for jargon, plain in _JARGON.items():
        what = what.replace(jargon, plain)
    fix = "check indentation, quotes and brackets near this line"
    if "\t" in source:
        fix = "indent with spaces, not tabs"
    elif "mapping values" in what:
        fix = 'put a text that holds ": " in quotes, or check the indentation'
    return Problem("not-yaml", where, f"is not YAML: {what}", fix)


class _NodeReader:
    """Makes data from YAML nodes; every alias gets data and lines of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values = 0
        self.lines: dict[FieldPath, int] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, path: FieldPath, inside: tuple[int, ...]) -> Any:
        """The data of a node that stands inside the nodes with these ids."""
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        self._values += 1
        if self._values > _MOST_VALUES:
            message = f"holds more than {_MOST_VALUES:,} values once its anchors are followed"
            raise InputError(Problem("not-yaml", self._name, message, "check its anchors"))
        if len(inside) > DEEPEST:
            raise InputError(_too_deep(f"{self._name}:{line}"))
        if id(node) in inside:
            return self._refuse(path, "not-yaml", "is part of itself through its anchor", "write it out")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            data: dict[str, Any] = {}
            self._fill(data, node, path, (*inside, id(node)))
            return data
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            inside = (*inside, id(node))
            return [self.value(item, (*path, index), inside) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._refuse_tag(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath) -> Any:
        text: str = node.value
        if node.tag == f"{_TAG}str":
            return text
        if node.tag not in _SCALARS:
            return self._refuse_tag(node, path)
        try:
            return _SCALARS[node.tag](text.casefold())
        except (ValueError, KeyError):
            kind = node.tag.removeprefix(_TAG)
            fix = "write a number of ordinary size" if kind == "int" and text.isdecimal() else "leave the tag out"
            return self._refuse(path, "wrong-type", f"found {shown(text)}, expected {_KINDS[kind]}", fix)

    def _fill(self, data: dict[str, Any], node: yaml.MappingNode, path: FieldPath, inside: tuple[int, ...]) -> None:
        """Adds the keys of a mapping that are not there yet, and then those it merges."""
        lines: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == f"{_TAG}merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.lines.setdefault((*path, "?"), line)
                self._refuse(
                    (*path, "?"),
                    "wrong-type",
                    "found a list or a mapping as a key, expected a text",
                    "write it as a text",
                )
                continue
            key: str = key_node.value
            here = (*path, key)
            if key in lines:
                self.problems.append(
                    Problem(
                        "duplicate-key",
                        Document(self._name, None, {here: line}).where(here),
                        f"stands twice, first on line {lines[key]}",
                        "keep one of them",
                    )
                )
                continue
            lines[key] = line
            if key not in data:
                self.lines[here] = line
                data[key] = self.value(value_node, here, inside)
        for other in merged:
            if isinstance(other, yaml.MappingNode) and id(other) not in inside:
                self._fill(data, other, path, (*inside, id(other)))
            else:
                self.lines.setdefault((*path, "<<"), other.start_mark.line + 1)
                self._refuse(
                    (*path, "<<"),
                    "wrong-type",
                    "found no mapping, expected one to merge",
                    "write <<: *anchor",
                )

    def _refuse_tag(self, node: yaml.Node, path: FieldPath) -> Any:
        tag = printable(node.tag.replace(_TAG, "!!"))
        return self._refuse(path, "not-supported", f"carries the tag {tag}", "leave the tag out")

    def _refuse(self, path: FieldPath, code: str, message: str, fix: str) -> Any:
        where = Document(self._name, None, self.lines).where(path)
        self.problems.append(Problem(code, where, message, fix))
        return UNREADABLE
