"""Study files: a base scenario and axes along which its fields vary."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from msgspec import Struct

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.catalog import entries
from prfaas_opt.io.document import Document, dotted, plain_document
from prfaas_opt.io.overrides import RefusedError, apply_overrides, copied, put
from prfaas_opt.io.scalars import Choice, Text
from prfaas_opt.io.scenario_file import CASE_STUDY, SCENARIO
from prfaas_opt.io.spec import INVALID, Context, Either, Field, Record, read_whole
from prfaas_opt.io.wording import printable
from prfaas_opt.io.yaml_file import parse_document, read_document
from prfaas_opt.scenario import Objective
from prfaas_opt.study.axes import StudyRows
from prfaas_opt.study.axis_fields import BLOCK, Axes, FieldValues, field_name
from prfaas_opt.study.rows import Detail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prfaas_opt.io.document import FieldPath

Source = str | Path | dict[str, Any]


class _BaseMapping(Struct, frozen=True):
    """A scenario written out; it is read as a document of its own."""

    expected: str = "a scenario's mapping"

    def read(self, _context: Context, value: Any, _path: FieldPath) -> Any:
        """The mapping."""
        return value

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the field."""
        return {"type": "object"}


STUDY = Record(
    {
        "name": Field(Text(), "name of the study; default: that of the file", None),
        "base": Field(
            Either(Text("a scenario file's path"), _BaseMapping()),
            "the scenario that rows change: its path or the scenario itself; default: the paper's case study",
            None,
        ),
        "set": Field(FieldValues("value"), "fields of the base that differ in all rows", {}),
        "objective": Field(
            Choice(get_args(Objective)),
            "what is planned for; default: goodput where slo.ttft is given, else throughput",
            None,
        ),
        "detail": Field(
            Choice(get_args(Detail)),
            "plan: the plan; full: also what-ifs, failures, figures that are off and costs elsewhere, far slower",
            "plan",
        ),
        "axes": Field(Axes(), "blocks of rows; the product of them is planned, the last varies fastest"),
    },
    keep_invalid=True,
)


def read_study(source: Source, base: Path | None = None, overrides: Mapping[str, str] | None = None) -> StudyRows:
    """The rows that a study file describes.

    Args:
        source: its path, or a mapping of the same form.
        base: a scenario file to use instead of the one that it names.
        overrides: fields of the base as ``--set`` gives them, over those of ``set``.

    Raises:
        InputError: all that is wrong with it, with file, line and field.

    >>> rows = read_study({"axes": [{"grid": {"links.0.bandwidth": ["1Gbps", "10Gbps"]}}]})
    >>> len(rows), rows.fields, rows.values(1, 2)
    (2, ('links.0.bandwidth',), [('10Gbps',)])
    """
    document = plain_document(source, "study") if isinstance(source, dict) else read_document(Path(source), "study")
    _refuse_a_scenario(document)
    _refuse_a_block_alone(document)
    given = document.data if isinstance(document.data, dict) else {}
    scenario = base_document(given.get("base") if base is None else str(base), None if base else document)
    # Named models and workloads are those of the base, whose fields the values become.
    context = Context(dataclasses.replace(document, folder=scenario.folder))
    values = read_whole(context, STUDY, "study")
    if values is INVALID or INVALID in values.values():
        context.raise_problems()
    context.raise_problems()
    scenario = _with_fields(scenario, values["set"], document, "set")
    if overrides:
        scenario = apply_overrides(scenario, overrides)
    name = values["name"] or (printable(Path(source).stem) if isinstance(source, str | Path) else "study")
    fields = tuple(name for block in values["axes"] for name in block.fields)
    rows = StudyRows(name, scenario, fields, values["objective"], values["axes"], values["detail"])
    _check_first_row(rows, document)
    return rows


def base_document(base: Any, study: Document | None = None) -> Document:
    """The document of a base scenario: a path, a mapping in a study, or None for the paper's case study.

    Args:
        base: as it is written.
        study: that it is written in; None for a path from elsewhere.

    Raises:
        InputError: there is no such file, or it is no YAML.
    """
    folder = study.folder if study else None
    if isinstance(base, dict) and study is not None:
        lines = {path[1:]: line for path, line in study.lines.items() if path[:1] == ("base",)}
        return Document(study.name, base, lines, folder)
    if isinstance(base, str) and base.strip():
        where = study.where(("base",)) if study else "--base"
        path = (folder or Path()) / Path(base.strip()).expanduser()
        if not path.is_file():
            message = f"there is no scenario file {printable(str(path))}"
            raise InputError(Problem("missing-file", where, message, _instead_of_a_file(base.strip(), study)))
        return read_document(path, "scenario")
    return dataclasses.replace(
        parse_document(CASE_STUDY.read_text(encoding="utf-8"), "built-in case study"), folder=folder
    )


def _instead_of_a_file(base: str, study: Document | None) -> str:
    """What to write instead of a base that is no file: people name a model there."""
    if base in entries("models", study.folder if study else None):
        told = f"write set: {{model: {base}}}" if study else f"add --set model={base}"
        return f"it is a model: leave base out, or name a scenario, and {told}"
    return "check the path; it starts at this file's folder" if study else "check the path"


def _refuse_a_scenario(document: Document) -> None:
    data = document.data
    if isinstance(data, dict) and "clusters" in data and not data.keys() & {"axes", "base"}:
        fix = "plan it: prfaas-opt plan FILE; or write a study with base: FILE, and axes"
        raise InputError(Problem("wrong-file", document.where(), "is a scenario file, expected a study", fix))


def _refuse_a_block_alone(document: Document) -> None:
    """Raises what is wrong with a study that has a block where its axes belong."""
    data = document.data
    for key in BLOCK.by_key if isinstance(data, dict) and "axes" not in data else ():
        if key in data:
            fix = f"write axes: [{{{key}: ...}}]"
            raise InputError(
                Problem("misplaced-key", document.where((key,)), "is a block of axes, which are missing", fix)
            )


def _with_fields(scenario: Document, fields: Mapping[str, Any], study: Document, key: str) -> Document:
    """A base with fields that a study sets, which errors then find in the study."""
    if not fields or not isinstance(scenario.data, dict):
        return scenario
    changed = copied(scenario)
    spelt = {field_name(text): text for text in study.at((key,))}
    problems = []
    places = dict(changed.places)
    for name, value in fields.items():
        where = study.where((key, spelt[name]))
        try:
            path, made = put(changed, name, value)
            places |= dict.fromkeys([path, *made], where)
        except RefusedError as error:
            problems.append(Problem("bad-override", where, str(error), error.fix))
    if problems:
        raise InputError(problems)
    changed.places = places
    return changed


def _check_first_row(rows: StudyRows, study: Document) -> None:
    """Raises what is wrong with the base, and fields of the axes that it has no place for: the same in every row."""
    if not isinstance(rows.base.data, dict):
        read_whole_base(rows.base)
        return
    changed = copied(rows.base)
    places = dict(changed.places)
    problems: list[Problem] = []
    for number, block in enumerate(rows.blocks):
        for name, value in block.first().items():
            where = _place(study, number, name)
            try:
                path, made = put(changed, name, value)
                places |= {path: where} | {each: f"{where}: {dotted(each)}" for each in made}
            except RefusedError as error:
                problems.append(Problem("bad-override", where, str(error), error.fix))
    if problems:
        raise InputError(problems)
    changed.places = places
    read_whole_base(changed)


def _place(study: Document, block: int, field: str) -> str:
    """Where a block names a field."""
    inside = [path for path in study.lines if path[:2] == ("axes", block) and len(path) > 3]
    named = [path for path in inside if isinstance(path[-1], str) and field_name(path[-1]) == field]
    return study.where(min(named, key=len)) if named else f"{study.where(('axes', block))} {field}"


def read_whole_base(scenario: Document) -> None:
    """Raises what is wrong with the fields of a scenario, each by itself.

    Raises:
        InputError: all of it.
    """
    context = Context(scenario)
    read_whole(context, SCENARIO, "scenario")
    context.raise_problems()
