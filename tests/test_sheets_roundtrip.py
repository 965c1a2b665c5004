"""Tables laid out at random say the same; files changed at random never give a traceback or another value."""

from __future__ import annotations

import datetime
import io
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prfaas_opt.errors import InputError
from prfaas_opt.sheets.catalogue import PRICE_OF_ALL, Column, scenario_columns
from prfaas_opt.sheets.reading import read_scenarios
from prfaas_opt.study.rows import UNSET
from tests.sheets import HEADERS, ROW, ods, ods_row, workbook

COLUMNS = [column for column in scenario_columns() if column.path != PRICE_OF_ALL]
CASES = settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def _cell(column: Column) -> st.SearchStrategy[tuple[str, Any]]:
    """A cell as plain text of a number without separators, or a word; and the value that it stands for."""
    if column.kind == "choice":
        return st.sampled_from(column.choices).map(lambda word: (word, word))
    if column.kind == "text":
        return st.sampled_from(["internal-1t", "H20", "H200", "a b", "caf\u00e9", "x-1"]).map(lambda w: (w, w))
    if column.kind in ("count", "tokens"):
        return st.integers(1, 9_999_999).map(lambda n: (str(n), n))
    decimals = st.decimals("0.001", "9999.999", places=3).map(lambda d: d.normalize())
    if column.kind == "share":
        return st.decimals("0.0001", "0.9999", places=4).map(lambda d: (f"{d.normalize():f}", float(d)))
    plain = decimals.map(lambda d: (f"{d:f}", int(d) if d == int(d) else float(d)))
    if column.unit and column.kind in ("bandwidth", "duration", "size"):
        return plain.map(lambda pair: (pair[0], f"{pair[1]!r}{column.unit}"))
    return plain


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[list[tuple[str, Any] | None]]]:
    """Some columns, in any order, and rows of cells, of which some are empty."""
    chosen = draw(st.lists(st.sampled_from(COLUMNS), min_size=3, max_size=9, unique_by=lambda column: column.path))
    model = next(column for column in COLUMNS if column.path == "model")
    if model not in chosen:
        chosen = [*chosen, model]
    clusters = {column.path for column in chosen if column.path.startswith("clusters.prfaas")}
    # Rows without any field of the remote cluster lose the link: not what this is about.
    optional = {column.path for column in chosen if not clusters and not column.path.startswith("links")}
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        row: list[tuple[str, Any] | None] = []
        for column in chosen:
            empty = column.path in optional and column.path != "model" and draw(st.integers(0, 5)) == 0
            row.append(None if empty else draw(_cell(column)))
        rows.append(row)
    return chosen, rows


def _header(column: Column, how: random.Random) -> str:
    """One of the ways to write a header."""
    name = how.choice([column.name, *column.synonyms[:6]])
    if column.unit:
        name = how.choice([f"{name} ({column.unit})", f"{name} [{column.unit}]", f"{name}, {column.unit}"])
    if column.unit in ("", "Gbps", "ms", "s"):
        name = how.choice([name, f" {name} ", name.replace(" ", "\u00a0"), name.replace(" ", "\n", 1)])
    if column.kind in ("text", "count", "choice"):
        name = how.choice([name, name.upper(), name.lower(), name.replace(" ", "_"), column.path])
    return name


def _written(text: str, column: Column, how: random.Random, comma: bool, native: bool) -> Any:
    """One of the ways to write a cell."""
    if column.kind in ("text", "choice"):
        return how.choice([text, f" {text}\u00a0", f"{text}\u200b"])
    number = float(text)
    if native and how.random() < 0.6:
        return int(number) if number == int(number) else number
    whole, _, rest = text.partition(".")
    if comma and how.random() < 0.5 and len(whole) > 3 and rest:
        whole = f"{int(whole):,}".replace(",", ".")
    written = f"{whole}{',' if comma else '.'}{rest}" if rest else whole
    return how.choice([written, f" {written} ", f"{written} {column.unit}"]) if column.unit else written


def _laid_out(
    columns: list[Column], rows: list[list[tuple[str, Any] | None]], how: random.Random, comma: bool, native: bool
) -> tuple[list[list[Any]], list[int]]:
    """A grid with the table somewhere on it, and the lines of its rows, from 1."""
    shift = how.choice([0, 0, 1, 3])
    lead: list[Any] = [None] * shift
    grid: list[list[Any]] = [how.choice([[], [*lead, "Made for a test"]]) for _ in range(how.randint(0, 3))]
    grid.append([*lead, *(_header(column, how) for column in columns)])
    lines = []
    for row in rows:
        if how.random() < 0.2 and sum(cell is not None for cell in row) > 1:
            grid.append([])
        nothing = how.choice([None, "-", "n/a", ""])
        cells = [
            nothing if cell is None else _written(cell[0], column, how, comma, native)
            for column, cell in zip(columns, row, strict=True)
        ]
        grid.append([*lead, *cells])
        lines.append(len(grid))
    if how.random() < 0.3:
        grid += [[], [*lead, "* a remark"]]
    return grid, lines


def _file(folder: Path, kind: str, grid: list[list[Any]]) -> Path:
    if kind == "xlsx":
        return workbook(folder / "plan.xlsx", {"Plan": grid})
    if kind == "ods":
        rows = "".join(ods_row(*(None if cell == "" else cell for cell in row)) for row in grid)
        return ods(folder / "plan.ods", f'<table:table table:name="Plan">{rows}</table:table>')
    import csv

    delimiter, encoding = {"csv": (",", "utf-8"), "tsv": ("\t", "utf-16"), "german": (";", "utf-8-sig")}[kind]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(grid)
    file = folder / "plan.csv"
    file.write_bytes(text.getvalue().encode(encoding))
    return file


@pytest.mark.parametrize("kind", ["xlsx", "ods", "csv", "tsv", "german"])
@CASES
@given(table=tables(), seed=st.integers(0, 2**32))
def test_a_table_laid_out_at_random_reads_back(
    tmp_path: Path, kind: str, table: tuple[list[Column], list[list[tuple[str, Any] | None]]], seed: int
) -> None:
    columns, cells = table
    how = random.Random(seed)
    comma = kind == "german" or (kind in ("xlsx", "ods") and how.random() < 0.3)
    grid, lines = _laid_out(columns, cells, how, comma, native=kind in ("xlsx", "ods"))
    rows = read_scenarios(_file(tmp_path, kind, grid), locale="de" if comma else "en")
    sheet = "Plan" if kind in ("xlsx", "ods") else "plan.csv"
    assert [rows.place(i) for i in range(len(rows))] == [f"{sheet}!{line}" for line in lines]
    for i, row in enumerate(cells):
        assert rows.problems(i) == ()
        values = dict(zip(rows.fields, rows.values(i, i + 1)[0], strict=True))
        for column, cell in zip(columns, row, strict=True):
            found = values.get(column.path, UNSET)
            if cell is None:
                assert found is UNSET
            else:
                assert found == cell[1], column.path


@CASES
@given(table=tables(), seed=st.integers(0, 2**32), comma=st.booleans())
def test_without_a_locale_no_number_is_another(
    tmp_path: Path, table: tuple[list[Column], list[list[tuple[str, Any] | None]]], seed: int, comma: bool
) -> None:
    columns, cells = table
    grid, _ = _laid_out(columns, cells, random.Random(seed), comma, native=False)
    rows = read_scenarios(_file(tmp_path, "german" if comma else "csv", grid))
    for i, row in enumerate(cells):
        wrong = {problem.where for problem in rows.problems(i)}
        assert {problem.code for problem in rows.problems(i)} <= {"ambiguous-number"}
        values = dict(zip(rows.fields, rows.values(i, i + 1)[0], strict=True))
        for column, cell in zip(columns, row, strict=True):
            if cell is not None and rows.where(i, column.path) not in wrong:
                assert values[column.path] == cell[1]


ENGLISH = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?")


@CASES
@given(
    number=st.sampled_from(["40", "1,250", "12.5", "32,768", "0.25", "1e3", "-4"]),
    at=st.integers(0, 6),
    new=st.text(alphabet="0123456789.,-+eE%K: '\u00a0\u2009x", max_size=2),
    cut=st.integers(0, 2),
)
def test_a_number_changed_at_random_is_read_as_written_or_not_at_all(
    tmp_path: Path, number: str, at: int, new: str, cut: int
) -> None:
    text = number[:at] + new + number[at + cut :]
    file = tmp_path / "plan.tsv"
    file.write_text(f"Model\tSLO (tokens/s)\tPD instances\ninternal-1t\t{text}\t{text}\n", encoding="utf-8")
    rows = read_scenarios(file, locale="en")
    wrong = {problem.where for problem in rows.problems(0)}
    values = dict(zip(rows.fields, rows.values(0, 1)[0], strict=True))
    plain = re.sub(r"(?<=\d)[ '\u00a0\u2009](?=\d{3}(?!\d))", "", " ".join(text.split()))
    for path, cell in (("slo.tokens_per_s", "plan.tsv!B2"), ("clusters.pd.instances", "plan.tsv!C2")):
        value = values.get(path, UNSET)
        if isinstance(value, int | float):
            assert cell not in wrong
            assert ENGLISH.fullmatch(plain)
            assert value == float(plain.replace(",", ""))
        elif value is UNSET:
            # Nothing: marked, or said to be nothing.
            assert cell in wrong or text.strip() in ("", "-", "--")


@CASES
@given(seed=st.integers(0, 2**32))
def test_bytes_changed_at_random_give_no_traceback(tmp_path: Path, seed: int) -> None:
    how = random.Random(seed)
    file = workbook(
        tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, ROW, ROW], "Prices": [("GPU", "Price"), ("H20", 1)]}
    )
    if how.random() < 0.5:
        data = bytearray(file.read_bytes())
        for _ in range(how.randint(1, 8)):
            data[how.randrange(len(data))] = how.randrange(256)
        file.write_bytes(bytes(data[: how.choice([len(data), how.randrange(len(data))])]))
    else:
        with zipfile.ZipFile(file) as archive:
            parts = {name: bytearray(archive.read(name)) for name in archive.namelist()}
        part = parts[how.choice(sorted(parts))]
        for _ in range(how.randint(1, 5)):
            at = how.randrange(len(part))
            part[at : at + how.choice([0, 1, 10])] = how.choice(
                [b"", b"<", b'"', b"&x;", b"9" * 20, bytes([how.randrange(256)])]
            )
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, bytes(content))
    _read_or_told(file)


def _read_or_told(file: Path) -> None:
    try:
        rows = read_scenarios(file)
    except InputError as error:
        told = error.problems
    else:
        told = tuple(problem for i in range(len(rows)) for problem in rows.problems(i))
        assert len(rows.values(0, len(rows))) == len(rows)
    assert all(problem.message and problem.where for problem in told)


JUNK = st.sampled_from(
    ["", "abc", "1e313", "12,5", "-", "#REF!", "1 GB", "3 s", "32K", "0", "Model", "Total", "x" * 300, "=1+1", "\u0661"]
) | st.sampled_from([-1, 0, 0.5, 1e300, 2**60, True, datetime.date(2026, 8, 1), datetime.time(2, 1), None])


@CASES
@given(changes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(0, 9), JUNK), max_size=8))
def test_cells_changed_at_random_give_no_traceback(tmp_path: Path, changes: list[tuple[int, int, int, Any]]) -> None:
    from tests.test_sheets_extra import DECODE, LINK_PRICES, PRICES, PROFILES, TABLE, WORKLOADS

    steps = (("mine", "H20", batch, context, 9) for batch in (1, 8) for context in (9, 99))
    contexts = [("Model", "GPU", "Batch", "Context", "Step (ms)"), *steps]
    sheets: dict[str, list[list[Any]]] = {
        "Scenarios": [[*HEADERS, "PD price"], [*ROW, 1], [ROW[0], "mine", "mix", *ROW[3:]], [ROW[0], "mine", "chat"]],
        "Curves": [list(row) for row in (*PROFILES, (), *DECODE)],
        "Steps": [list(row) for row in (*contexts, (), *PRICES)],
        "Traffic": [list(row) for row in (*WORKLOADS, (), *TABLE, (), *LINK_PRICES)],
    }
    for sheet, r, c, junk in changes:
        rows = list(sheets.values())[sheet]
        row = rows[r % len(rows)]
        row += [None] * (c + 1 - len(row))
        row[c] = junk
    _read_or_told(workbook(tmp_path / "plan.xlsx", sheets))


@CASES
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode), header=st.booleans())
def test_any_bytes_give_no_traceback(tmp_path: Path, data: bytes, header: bool) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes((b"Model,PD instances,Link (Gbps),Must stay (%)\n" if header else b"") + data)
    _read_or_told(file)
