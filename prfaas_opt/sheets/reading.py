"""Spreadsheets in: a file with a row a scenario, as rows for a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import counted, printable, shown
from prfaas_opt.sheets.assembly import (
    Filled,
    outline,
    pools_of,
    refuse,
    spread_prices,
    structure,
    substitute,
    without_remote,
)
from prfaas_opt.sheets.body import data_rows, grouped
from prfaas_opt.sheets.book import cleaned
from prfaas_opt.sheets.cells import CellReader, error_cell, is_missing, uncalculated_cell
from prfaas_opt.sheets.choosing import choose, tables_of
from prfaas_opt.sheets.doubts import names_alone, too_wide, totals_perhaps
from prfaas_opt.sheets.explanation import ColumnUse, Explanation, Note, SheetProblem, TableUse, Taken
from prfaas_opt.sheets.extra import Extras
from prfaas_opt.sheets.headers import is_of_workloads
from prfaas_opt.sheets.models import read_models
from prfaas_opt.sheets.notation import Evidence, Notation, stated
from prfaas_opt.sheets.opening import open_book
from prfaas_opt.sheets.prices import read_prices
from prfaas_opt.sheets.rows import SheetRows
from prfaas_opt.sheets.workloads import read_workloads
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prfaas_opt.io.document import Document
    from prfaas_opt.sheets.book import Book, Place, Sheet
    from prfaas_opt.sheets.tables import Header, Table

SUFFIXES = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods", ".csv", ".tsv", ".tab")
"""Of files that are tables; what a file really is, its content says."""

_MOST_PROBLEMS = 100
"""That an explanation lists."""
_MOST_REMARKS = 20
"""Of one kind that an explanation lists."""


def read_scenarios(
    path: str | Path,
    *,
    sheet: str | None = None,
    base: Document | None = None,
    locale: str | None = None,
    include_hidden: bool = False,
) -> SheetRows:
    """The scenarios of a spreadsheet, a row each.

    A row with something ambiguous stays, with its problems; only what concerns the whole file is raised.

    Args:
        path: an .xlsx, .xls, .ods, .csv or .tsv file.
        sheet: the sheet of scenarios, or a cell of their table, ``Plan!B4``; None: the one that has them.
        base: what fields without a column are; None: nothing but two pools and a link, for the columns to fill.
        locale: how texts write numbers: ``en``, ``de``, ``de_DE``, or a sample, ``1.234,5``; None: by evidence.
        include_hidden: take hidden rows, columns and sheets too.

    Raises:
        InputError: the file cannot be read, is hostile, or has no table of scenarios.
    """
    notation = None if locale is None else stated(locale)
    book = open_book(path)
    book.folder = Path(path).parent
    return _Reader(book, base, notation, include_hidden).read(Path(path).stem, sheet)


class _Reader:
    """Reads one file."""

    def __init__(self, book: Book, base: Document | None, notation: Notation | None, include_hidden: bool) -> None:
        self._book, self._base, self._include_hidden = book, base, include_hidden
        self._notes = [Note(book.name, note) for note in book.notes]
        self._uses: list[TableUse] = []
        self._problems: dict[int, list[Problem]] = {}
        self._remarked: set[tuple[int, str]] = set()
        self._tables = tables_of(book, include_hidden, pools_of(base), self._uses, self._notes)
        self._notation = notation or self._evidence()

    def _evidence(self) -> Notation:
        """How the texts of all tables write numbers."""
        evidence = Evidence()
        for table in self._tables:
            for header in table.headers:
                column = header.means.column
                if column is not None and column.kind in ("text", "choice"):
                    continue
                whole = column is not None and column.kind in ("count", "tokens") and not header.means.unit
                cells = table.column(header.column)
                for text in sorted(
                    v for v in table.distinct(header.column) if v.__class__ is str and ("," in v or "." in v)
                ):
                    place = table.sheet.place(table.row + 1 + cells.index(text), header.column)
                    evidence.add(cleaned(text), place, whole, beside=column is None)
        return evidence.notation(self._book.delimiter == "semicolon")

    def read(self, name: str, sheet: str | None) -> SheetRows:
        """The rows of scenarios."""
        extras = self._extras()
        chosen = choose(self._book, self._tables, self._base, sheet, self._uses, _all_problems(extras))
        table = chosen[0]
        pools = pools_of(self._base)
        headers = self._headers(chosen, extras)
        rows: list[tuple[Table, int]] = []
        left_out = []
        for each in chosen:
            found, not_taken = data_rows(each, self._include_hidden)
            rows += [(each, r) for r in found]
            left_out += grouped(each, not_taken)
        for each in self._tables:
            if each.topic != "scenarios":
                left_out += grouped(each, data_rows(each, self._include_hidden)[1])
        if not rows:
            message = "has headers but no row of a scenario below them"
            fix = "fill in a row; where fields stand below each other, transpose the table"
            raise InputError([Problem("empty-table", table.cells, message, fix), *extras.problems])
        columns: dict[str, Filled] = {}
        for header in headers:
            column = header.means.column
            assert column is not None
            path = pools.path(column.path)
            assert path is not None
            columns[path] = Filled(path, self._column(header, rows), header.column)
        for row, problem in (*totals_perhaps(rows, headers), *too_wide(rows, self._book.delimiter)):
            self._add(row, [problem])
        bare = () if self._base is not None else tuple(names_alone(rows, columns, self._problems))
        for row, problem in bare:
            self._add(row, [problem])
        self._note_nameless(table)
        used = {
            "model": substitute(columns, "model", extras.models, self._add),
            "workload": substitute(columns, "workload", extras.workloads, self._add),
        }
        spread_prices(columns, pools, extras, self._base, len(rows))
        remote = f"clusters.{pools.remote}."
        has_remote = any(path.startswith((remote, "links.0.")) for path in columns)
        homogeneous = without_remote(columns, pools, self._base is not None, len(rows)).difference(
            row for row, _ in bare
        )
        base = outline(self._base, pools, self._book, has_remote)
        filled = [each for each in columns.values() if each.values.count(UNSET) < len(rows) or each.column is not None]
        if homogeneous:
            count = len(homogeneous)
            self._notes.append(
                Note(
                    table.sheet.name,
                    f"{counted(count, 'row')} without a remote cluster: homogeneous, links not used",
                )
            )
            filled = [*structure(homogeneous, pools, base, len(rows)), *filled]
        beside = [header for header in table.headers if header not in headers and not self._is_hidden(table, header)]
        problems, more = self._told(_all_problems(extras, used))
        explanation = Explanation(
            file=self._book.name,
            format=self._book.format,
            encoding=self._book.encoding,
            delimiter=self._book.delimiter,
            decimal=self._notation.mark or "",
            decimal_evidence=self._notation.why,
            rows=len(rows),
            tables=tuple(self._uses),
            columns=tuple(self._column_uses(table, headers, pools.path)),
            rows_left_out=tuple(left_out),
            taken=tuple(self._taken(extras, used)),
            notes=(*self._notes, *more),
            problems=problems,
        )
        return SheetRows(
            name=name,
            base=base,
            fields=tuple(column.path for column in filled),
            objective=None,
            extra_columns=tuple(header.text for header in beside),
            explanation=explanation,
            _addresses=table.sheet.addresses,
            _lines=tuple(r for _, r in rows),
            _columns=tuple(column.values for column in filled),
            _places={each.path: each.column for each in filled if each.column is not None},
            _extras=tuple(_shown(_cells(rows, header.column)) for header in beside),
            _elsewhere={column.path: column.elsewhere for column in filled if column.elsewhere},
            _problems={row: tuple(dict.fromkeys(found)) for row, found in self._problems.items()},
        )

    def _told(self, beside: list[Problem]) -> tuple[tuple[SheetProblem, ...], list[Note]]:
        """What an explanation says is wrong, beside the rows and in them, and how much it omits."""
        of_rows = [problem for row in sorted(self._problems) for problem in self._problems[row]]
        found = list(dict.fromkeys([*beside, *of_rows]))
        told = tuple(SheetProblem(p.code, p.where, p.message, p.fix) for p in found[:_MOST_PROBLEMS])
        omitted = len(found) - len(told)
        message = f"{counted(omitted, 'more problem')}, not listed here; every row of the results has its own"
        return told, [Note(self._book.name, message)] if omitted else []

    def _extras(self) -> Extras:
        """What the tables beside those of scenarios hold."""
        extras, file = Extras(), self._book.name
        by_topic = {t: [x for x in self._tables if x.topic == t] for t in ("profiles", "workloads", "prices")}
        extras.models, lost = read_models(by_topic["profiles"], self._notation, self._include_hidden, file)
        extras.problems += lost
        extras.workloads, lost = read_workloads(by_topic["workloads"], self._notation, self._include_hidden, file)
        extras.problems += lost
        read_prices(by_topic["prices"], self._notation, self._include_hidden, extras)
        for table in self._tables:
            if table.topic != "scenarios":
                extras.problems += _header_problems(table)
        return extras

    def _is_hidden(self, table: Table, header: Header) -> bool:
        return header.column in table.sheet.hidden_columns and not self._include_hidden

    def _headers(self, chosen: list[Table], extras: Extras) -> list[Header]:
        """The columns that fill fields; raises what is wrong with headers."""
        pools = pools_of(self._base)
        table = chosen[0]
        problems = [problem for each in chosen[:1] for problem in _header_problems(each)]
        seen: dict[str, Header] = {}
        headers = []
        for header in table.headers:
            column = header.means.column
            if column is None or self._is_hidden(table, header):
                continue
            place = table.sheet.place(table.row, header.column)
            path = pools.path(column.path)
            if path is None:
                message = f"{shown(header.text)} may be any of several clusters of the base scenario"
                problems.append(Problem("ambiguous", place, message, "use the path: clusters.NAME.instances"))
                continue
            if path in seen:
                other = table.sheet.place(table.row, seen[path].column)
                message = f"{shown(header.text)} fills {path}, as {shown(seen[path].text)} at {other} does"
                problems.append(Problem("duplicate-column", place, message, "keep one of the two columns"))
                continue
            seen[path] = header
            headers.append(header)
        if problems:
            refuse([*problems, *extras.problems])
        return headers

    def _column(self, header: Header, rows: list[tuple[Table, int]]) -> list[Any]:
        """The values of a column, one a row; what is wrong with cells is noted with their rows."""
        sheet, c = rows[0][0].sheet, header.column
        assert header.means.column is not None
        reader = CellReader(header.means.column, header.means.unit, self._notation, sheet.is_text)
        cells = _cells(rows, c)
        flawed = {r for r, column in sheet.flaws if column == c}
        if not flawed and reader.unit != "%" and bool not in set(map(type, cells)):
            # What a cell says is the same wherever it stands, but for percentages: each is read once.
            values = reader.read_all(set(cells))
            if values is not None:
                return [values[cell] for cell in cells]
        return [
            self._value(reader, sheet, (r, c), i, cell, r in flawed)
            for i, ((_, r), cell) in enumerate(zip(rows, cells, strict=True))
        ]

    def _value(self, reader: CellReader, sheet: Sheet, place: Place, row: int, cell: Any, flawed: bool) -> Any:
        """The value of a cell; what is wrong with it is noted with its row."""
        found = reader.read(cell, None if sheet.percents is None else place in sheet.percents)
        trouble = found.trouble
        if flawed:
            flaw = sheet.flaws[place]
            trouble = error_cell(flaw.text) if flaw.kind == "error" else uncalculated_cell()
        if trouble is not None:
            self._add(row, [Problem(trouble.code, sheet.place(*place), trouble.message, trouble.fix)])
            return UNSET
        if found.note and (place[1], found.note) not in self._remarked and len(self._remarked) < _MOST_REMARKS:
            self._remarked.add((place[1], found.note))
            self._notes.append(Note(sheet.place(*place), found.note))
        return found.value

    def _note_nameless(self, table: Table) -> None:
        """Notes columns with cells but without a header."""
        named = {header.column for header in table.headers}
        for c in range(table.columns[0], table.columns[1] + 1):
            cells = table.column(c)
            if c not in named and cells.count("") < len(cells):
                place = table.sheet.place(table.row, c)
                self._notes.append(Note(place, "has cells below it but no text that names the column: left out"))

    def _add(self, row: int, problems: list[Problem]) -> None:
        self._problems.setdefault(row, []).extend(problems)

    def _column_uses(self, table: Table, headers: list[Header], path_of: Any) -> list[ColumnUse]:
        uses = []
        for header in table.headers:
            column = header.means.column
            sheet, c = table.sheet, header.column
            used = header in headers and column is not None
            note = ""
            if self._is_hidden(table, header):
                note = "hidden: left out"
            elif not used:
                kept = "kept beside the results"
                note = f"a scenario has it from its workload: {kept}" if is_of_workloads(header.text) else ""
                note = note or f"no field of a scenario: {kept}"
            elif header.group:
                note = f"under {shown(header.group)}"
            uses.append(
                ColumnUse(
                    header.text,
                    sheet.place(table.row, c),
                    sheet.range((min(table.row + 1, table.end - 1), c), (table.end - 1, c)),
                    path_of(column.path) if used and column is not None else None,
                    header.means.unit or header.means.stated,
                    note,
                )
            )
        return uses

    def _taken(self, extras: Extras, used: dict[str, set[str]]) -> list[Taken]:
        from prfaas_opt.io import catalog

        taken = []
        for kind, found, shipped in (
            ("model", extras.models, catalog.entries("models")),
            ("workload", extras.workloads, catalog.entries("workloads")),
        ):
            for name, named in found.items():
                note = "stands in for the one of this name that is known without the file" if name in shipped else ""
                if name not in used[kind]:
                    note = "no row names it"
                taken.append(Taken("model" if kind == "model" else "workload", name, named.cells, note))
        for hardware, (price, place) in extras.gpu_prices.items():
            taken.append(Taken("price", hardware, place, f"{price} USD per GPU-hour where a row states none"))
        for key, (price, place) in extras.link_prices.items():
            taken.append(Taken("price", f"link, {key}", place, f"{price} USD where a row states none"))
        return taken


def _all_problems(extras: Extras, used: dict[str, set[str]] | None = None) -> list[Problem]:
    """What is wrong beside the rows of scenarios, but with models and workloads that rows use, which mark them."""
    problems = list(extras.problems)
    for kind, found in (("model", extras.models), ("workload", extras.workloads)):
        for name, named in found.items():
            if name not in (used or {}).get(kind, ()):
                problems += named.problems
    return list(dict.fromkeys(problems))


def _header_problems(table: Table) -> list[Problem]:
    """What is wrong with the headers of a table, each by itself."""
    problems = []
    for header in table.headers:
        means, place = header.means, table.sheet.place(table.row, header.column)
        text = shown(header.text) + (f" under {shown(header.group)}" if header.group else "")
        if means.problem:
            expected = means.column.unit if means.column is not None else ""
            fix = f'convert the column to "{expected}" and say so in its header' if expected else "leave it out of it"
            problems.append(Problem("bad-unit", place, f"{text} {means.problem}", fix))
        elif means.near and table.topic == "scenarios":
            hint = f" ({means.hint})" if means.hint else ""
            fix = f"did you mean {' or '.join(means.near)}?{hint} If it is no field, rename it"
            problems.append(Problem("unknown-column", place, f"{text} is no known column, but looks like one", fix))
    return problems


def _cells(rows: list[tuple[Table, int]], column: int) -> Sequence[Any]:
    """The cells of a column, one a row."""
    table = rows[0][0]
    if rows[-1][0] is table:
        cells, first = table.column(column), table.row + 1
        return cells if len(rows) == len(cells) else [cells[r - first] for _, r in rows]
    return [each.cell(r, column) for each, r in rows]


def _shown(cells: Sequence[Any]) -> list[Any]:
    """Cells to be written beside results."""
    if bool in set(map(type, cells)):
        return [cell if isinstance(cell, bool) else _as_written(cell) for cell in cells]
    written = {cell: _as_written(cell) for cell in set(cells)}
    return [written[cell] for cell in cells]


def _as_written(cell: Any) -> Any:
    if is_missing(cell):
        return None
    if cell.__class__ is str:
        return printable(cleaned(cell))
    if cell.__class__ is float and cell.is_integer():
        return int(cell)
    return cell
