"""The part of a study that a report is asked of: rows with given values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.overrides import steps_of
from prfaas_opt.io.spec import INVALID
from prfaas_opt.io.wording import printable, suggestion
from prfaas_opt.study.fields import StudyField
from prfaas_opt.study.report.lines import FEW
from prfaas_opt.study.report.words import field_of, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.study.report.frame import Frame, Levels


def selected(frame: Frame, where: Mapping[str, str]) -> Frame:
    """The rows of a frame whose fields have these values.

    Args:
        frame: all rows.
        where: values by field, as ``--set`` has them: ``links.0.bandwidth``: ``100Gbps``; or by the end of its path.

    Raises:
        InputError: a field is none of the study's or may be several, no row has a value, or no row has all of them.
    """
    by_field = {field_of(column.name): column for column in frame.inputs}
    kept = np.ones(len(frame), dtype=bool)
    problems = []
    for text, value in where.items():
        named = _fields_named(".".join(steps_of(text)), by_field)
        if len(named) != 1:
            message = "names several fields of this study" if named else "is no field of this study"
            fix = f"write more of it: {' or '.join(named)}" if named else suggestion(text, by_field)
            problems.append(Problem("unknown-name", f"--where {printable(text)}", message, fix))
            continue
        field, column = named[0], by_field[named[0]]
        code = _code_of(column, field, value)
        if code is None:
            known = [shown(column.plain(each)) for each in range(min(column.count, FEW))]
            listed = ", ".join(known) + (", ..." if column.count > FEW else "")
            message = f"found {printable(value)}, expected a value that rows have: {listed}"
            problems.append(Problem("unknown-name", f"--where {printable(text)}", message, "name one of these"))
            continue
        kept &= column.codes == code
    if not problems and not kept.any():
        listed = ", ".join(f"{field}={value}" for field, value in where.items())
        problems.append(Problem("no-rows", "--where", f"no row has all of {printable(listed)}", "leave one out"))
    if problems:
        raise InputError(problems)
    return dataclasses.replace(
        frame,
        rows=frame.rows[kept],
        status=_part(frame.status, kept),
        bottlenecks=_part(frame.bottlenecks, kept) if frame.bottlenecks else None,
        figures={name: figures[kept] for name, figures in frame.figures.items()},
        inputs=[_part(column, kept) for column in frame.inputs],
    )


def _fields_named(text: str, by_field: Mapping[str, Levels]) -> list[str]:
    """The field of a path or of its column's name, else those whose paths end so, as reports shorten them."""
    whole = [field for field, column in by_field.items() if text in (field, column.name)]
    return whole or [field for field in by_field if field.endswith(f".{text}")]


def _code_of(column: Levels, field: str, value: str) -> int | None:
    if not isinstance(column.values, np.ndarray):
        return next((code for code, each in enumerate(column.values) if each == value), None)
    number = _number(field, value)
    if number is None:
        return None
    found = np.flatnonzero(np.isclose(column.values, number, rtol=1e-9, atol=0.0))
    return int(found[0]) if len(found) else None


def _number(field: str, value: str) -> float | None:
    """A value in the unit of its column: as it is, or with a unit of its own."""
    try:
        return float(value)
    except ValueError:
        known = StudyField(field)
        (read,) = known.read([value])
        told = None if read is INVALID else known.shown(value, read)
        return float(told) if isinstance(told, int | float) else None


def _part(column: Levels, kept: NDArray[np.bool_]) -> Levels:
    codes, places = np.unique(column.codes[kept], return_inverse=True)
    values = column.values
    some = values[codes] if isinstance(values, np.ndarray) else [values[code] for code in codes]
    return dataclasses.replace(column, codes=places.reshape(-1).astype(np.int64), values=some)
