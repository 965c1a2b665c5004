"""A report as a file: a Markdown page, or a CSV table with a row for every figure of it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.files import write_text
from prfaas_opt.io.wording import printable
from prfaas_opt.study.report.tables import axis_lines, headline, names_in, tables_of

if TYPE_CHECKING:
    from prfaas_opt.study.report.answers import StudyReport

_MOST = 200
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#&])")
_RUNS = "=+-@\t\r\n"


def write_report(report: StudyReport, path: Path) -> Path:
    """Writes a report in the format that a file's name tells, in place of an older one.

    Raises:
        InputError: it tells none, or the file cannot be written.
    """
    return write_text(path, check_report_file(path)(report), replace=True)


def check_report_file(path: Path) -> Callable[[StudyReport], str]:
    """What makes the text of a file of this name.

    Raises:
        InputError: the name tells no format.
    """
    found = {".md": markdown, ".csv": table}.get(path.suffix.lower())
    if found is None:
        message = f'ends in "{printable(path.suffix)}", expected .md or .csv'
        fix = "name the file report.md or report.csv; for programs there is --json"
        raise InputError(Problem("unknown-suffix", printable(str(path)), message, fix))
    return found


def markdown(report: StudyReport) -> str:
    """The report as a Markdown page."""
    parts = [f"# {_cell(headline(report))}", "\n".join(f"- {_cell(line)}" for line in axis_lines(report))]
    for each in tables_of(report, _MOST):
        parts += [f"## {_cell(each.title)}"] if each.title else []
        if each.rows:
            last = len(each.headings) - 1
            text = [n < each.left or (each.text_last and n == last) for n in range(last + 1)]
            lines = [tuple(map(_cell, each.headings)), tuple("---" if is_text else "---:" for is_text in text)]
            body = [tuple(map(_cell, row)) for row in each.rows]
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in [*lines, *body]))
        parts += map(_cell, each.after)
    parts += map(_cell, report.notes)
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


_COLUMNS = (
    "section",
    "axis",
    "measure",
    "value",
    "low",
    "high",
    "before",
    "after",
    "pays",
    "lines",
    "row",
    "rows",
    "mean",
    "least",
    "most",
    "variance_share",
    "where",
)


def table(report: StudyReport) -> str:
    """The report as one CSV table: what does not belong to a section is empty there."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for record in _records(report):
        writer.writerow({key: _harmless(value) for key, value in record.items() if value is not None})
    return out.getvalue()


def _harmless(value: Any) -> Any:
    """A text that no spreadsheet program runs."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _RUNS and value else value


def _records(report: StudyReport) -> Iterator[dict[str, Any]]:
    names = names_in(report)
    for each in report.pareto.rows:
        for name, figure in each.figures.items():
            yield {
                "section": "pareto",
                "measure": name,
                "value": figure,
                "row": each.row,
                "where": names.values(each.values),
            }
    for bottlenecks, rows in report.bottlenecks.items():
        yield {"section": "bottlenecks", "value": bottlenecks, "rows": rows}
    for along in report.changes:
        for change in along.changes:
            yield {
                "section": "changes",
                "axis": along.axis,
                "low": change.low,
                "high": change.high,
                "before": change.before,
                "after": change.after,
                "lines": change.lines,
                "where": names.limits(change.where),
            }
    for effect in report.effects:
        shared = {"section": "effects", "axis": effect.axis, "measure": effect.measure}
        yield shared | {"variance_share": effect.variance_share}
        for level in effect.levels:
            yield shared | {
                "value": level.value,
                "low": level.low,
                "high": level.high,
                "rows": level.figures,
                "mean": level.mean,
                "least": level.least,
                "most": level.most,
            }
    for found in report.break_even:
        for line in found.each:
            yield {
                "section": "break-even",
                "axis": found.axis,
                "measure": found.measure,
                "low": line.low if line.refined_low is None else line.refined_low,
                "high": line.high if line.refined_high is None else line.refined_high,
                "pays": line.pays,
                "where": names.values(line.values),
            }
    for shares in report.paying_shares:
        for stretch in shares.stretches:
            yield {
                "section": "paying share",
                "axis": shares.axis,
                "measure": shares.measure,
                "value": stretch.paying / stretch.rows,
                "low": stretch.low,
                "high": stretch.high,
                "rows": stretch.rows,
            }
    if report.gb_prices:
        prices = report.gb_prices
        yield {
            "section": "price of a GB",
            "value": prices.median,
            "rows": prices.rows,
            "least": prices.least,
            "most": prices.most,
        }
