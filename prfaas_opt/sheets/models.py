"""Models by the curves on extra sheets: a point a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from prfaas_opt import units
from prfaas_opt.errors import Problem
from prfaas_opt.profiles.model import PROVENANCE_KINDS
from prfaas_opt.sheets.extra import Named, Record, check, records, tokens

if TYPE_CHECKING:
    from prfaas_opt.io.document import FieldPath
    from prfaas_opt.sheets.notation import Notation
    from prfaas_opt.sheets.tables import Table

_TITLE = re.compile(r"(?P<model>[\w.][\w.\- ]*?)\s*[,;:(]\s*(?P<gpus>\d+)\s*[x\u00d7*]\s*(?P<hardware>[A-Za-z][\w\-]*)")
_DASH = re.compile(r"\s+[\u2013\u2014\-]\s+|:\s+")


def read_models(
    tables: list[Table], notation: Notation, include_hidden: bool, file: str
) -> tuple[dict[str, Named], list[Problem]]:
    """The models of tables of profiles, and what is wrong with cells that name none."""
    found: dict[str, Named] = {}
    points: dict[str, dict[str, list[Record]]] = {}
    outside: list[Problem] = []
    for table in tables:
        context = _from_titles(table)
        problems: list[Problem] = []
        names: set[str] = set()
        for record in records(table, notation, include_hidden, problems):
            record.values = context | record.values
            model = str(record.values.get("model", table.sheet.name))
            hardware = str(record.values.get("hardware", ""))
            names.add(model)
            named = found.setdefault(model, Named({}, table.cells))
            if table.cells not in named.cells:
                named.cells += f", {table.cells}"
            if not hardware:
                message = "names no hardware, expected the accelerator that was measured"
                fix = 'add a column "Hardware", or a title such as "my-model, 8\u00d7H200"'
                named.problems.append(Problem("missing-key", record.place, message, fix))
                continue
            points.setdefault(model, {}).setdefault(hardware, []).append(record)
        for name in names:
            found[name].problems += problems
        if not names:
            outside += problems
    for model, named in found.items():
        _assemble_model(named, model, points.get(model, {}), file)
    return found, outside


def _from_titles(table: Table) -> dict[str, Any]:
    """Model, hardware and GPUs as a title states them: ``Prefill profile - my-model, 8x H200``."""
    for title in table.titles:
        match = _TITLE.fullmatch(_DASH.split(title)[-1].strip(" )"))
        if match:
            return {"model": match["model"], "gpus_per_instance": int(match["gpus"]), "hardware": match["hardware"]}
    return {}


def _assemble_model(named: Named, model: str, by_hardware: dict[str, list[Record]], file: str) -> None:
    """Makes the mapping of a model and checks it as its file would be."""
    cells = named.places
    profiles = []
    for index, (hardware, rows) in enumerate(by_hardware.items()):
        at: FieldPath = ("profiles", index)
        profile: dict[str, Any] = {"hardware": hardware}
        cells[at] = rows[0].places.get("hardware", rows[0].place)
        for key in ("gpus_per_instance", "engine"):
            stated = {repr(row.values[key]): row for row in rows if key in row.values}
            if stated:
                first = next(iter(stated.values()))
                profile[key] = first.values[key]
                cells[*at, key] = first.places.get(key, first.place)
            if len(stated) > 1:
                others = " and ".join(stated)
                message = f"{hardware} of {model} has {others}, expected one"
                named.problems.append(Problem("ambiguous", cells[*at, key], message, "give each its own model name"))
        curve = _Curve(named, at)
        prefill = curve.table("prefill", rows, "length", {"latency": "latency_s", "occupancy": "occupancy_s"})
        if prefill:
            profile["prefill"] = prefill
        size = curve.table("kv_cache", rows, "length", {"kv_size": "bytes"})
        if size:
            profile["kv_cache"] = size
        decode = curve.decode(rows)
        if decode:
            profile["decode"] = decode
        source = next((str(row.values["source"]) for row in rows if "source" in row.values), "")
        figures = [key for key in ("prefill", "kv_cache", "decode") if key in profile]
        profile["provenance"] = dict.fromkeys(figures or ["prefill"], _provenance(source, named.cells, file))
        profiles.append(profile)
    named.data = {"name": model, "profiles": profiles}
    if not named.problems:
        from prfaas_opt.io.loading import model_of

        check(named, lambda document: model_of(document))


def _provenance(source: str, cells: str, file: str) -> str:
    if not source:
        return f"assumed, {cells} of {file}, which names no source"
    kind, _, rest = source.partition(" ")
    kind = kind.strip(",:;").casefold()
    if kind in PROVENANCE_KINDS:
        rest = rest.strip(" ,:;-")
        return f"{kind}, {rest}" if rest else kind
    return f"assumed, {source}"


class _Curve:
    """Makes tables of points, in SI units, with the cell of each."""

    def __init__(self, named: Named, at: FieldPath) -> None:
        self._named, self._at = named, at

    def table(self, key: str, rows: list[Record], over: str, columns: dict[str, str]) -> dict[str, Any]:
        """A curve by length, its points in order; empty where no row has one."""
        first = next(iter(columns))
        points = [row for row in rows if first in row.values]
        if not points:
            return {}
        points = self._sorted(points, over)
        path = (*self._at, key)
        table: dict[str, Any] = {"lengths_tokens": self._column(points, over, (*path, "lengths_tokens"))}
        for name, column in columns.items():
            if any(name in row.values for row in points):
                table[column] = self._column(points, name, (*path, column))
        self._named.places[path] = points[0].places[first]
        return table

    def decode(self, rows: list[Record]) -> dict[str, Any]:
        """The steps by batch, or by batch and context."""
        points = [row for row in rows if "step" in row.values]
        if not points:
            return {}
        path = (*self._at, "decode")
        self._named.places[path] = points[0].places["step"]
        contexts = sorted({row.values["context"] for row in points if "context" in row.values}, key=tokens)
        if len(contexts) < 2:
            points = self._sorted(points, "batch")
            batches = self._column(points, "batch", (*path, "batch"))
            return {"batch": batches, "step_s": self._column(points, "step", (*path, "step_s"))}
        batches = sorted({row.values.get("batch", 0) for row in points}, key=tokens)
        by_place = {(row.values.get("batch", 0), row.values.get("context")): row for row in points}
        steps = []
        for i, batch in enumerate(batches):
            present = [by_place[batch, context] for context in contexts if (batch, context) in by_place]
            if len(present) < len(contexts):
                message = (
                    f"batch {batch} has a step at {len(present)} of {len(contexts)} contexts, expected one at each"
                )
                self._named.problems.append(Problem("length-mismatch", points[0].place, message, "add what is missing"))
            steps.append(self._column(present, "step", (*path, "step_s", i)))
        return {"batch": batches, "context_tokens": contexts, "step_s": steps}

    def _sorted(self, points: list[Record], over: str) -> list[Record]:
        missing = [row for row in points if over not in row.values and over not in row.troubled]
        for row in missing:
            message = f"has no {over}, expected one for each point"
            self._named.problems.append(Problem("missing-key", row.places.get(over, row.place), message, "fill it in"))
        return sorted((row for row in points if over in row.values), key=lambda row: tokens(row.values[over]))

    def _column(self, points: list[Record], name: str, path: FieldPath) -> list[Any]:
        """The values of a column in SI units, each with its cell."""
        values = []
        for i, row in enumerate(points):
            place = row.places.get(name, row.place)
            self._named.places[*path, i] = place
            if name in row.troubled:
                continue
            if name not in row.values:
                message = f"has no {name.replace('_', ' ')}, expected one for each point"
                self._named.problems.append(Problem("missing-key", place, message, "fill it in"))
                continue
            values.append(self._in_si(row.values[name], name, place))
        if points:
            self._named.places[path] = points[0].places.get(name, points[0].place)
        return values

    def _in_si(self, value: Any, name: str, place: str) -> Any:
        parse = {"latency": units.parse_duration, "occupancy": units.parse_duration, "step": units.parse_duration}
        parse["kv_size"] = units.parse_size
        if name not in parse:
            return value
        try:
            return parse[name](value)
        except units.UnitError as error:
            fix = (
                f'{error.fix}, or put the unit in the header: "{name.replace("_", " ")} (ms)"'
                if name != "kv_size"
                else error.fix
            )
            self._named.problems.append(Problem("bad-unit", place, str(error), fix))
            return value
