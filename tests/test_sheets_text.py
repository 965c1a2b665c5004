"""Tables in text: encodings, delimiters, and how numbers are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.sheets.notation import readings, stated
from prfaas_opt.sheets.reading import read_scenarios
from tests.sheets import HEADERS, ROW, VALUES, codes, row_of


def table(delimiter: str = ",", *rows: tuple[object, ...]) -> str:
    return "".join(delimiter.join(map(str, row)) + "\r\n" for row in (HEADERS, *(rows or (ROW,))))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_encodings_and_delimiters(tmp_path: Path, delimiter: str, encoding: str) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(table(delimiter).encode(encoding))
    rows = read_scenarios(file)
    assert rows.values(0, 1) == [VALUES]
    assert rows.where(0, "model") == "plan.csv!B2"
    told = rows.explanation
    assert told.format == ("tsv" if delimiter == "\t" else "csv")
    assert told.encoding == {"utf-1": "UTF-16", "utf-3": "UTF-32"}.get(encoding[:5], "UTF-8")


def test_windows_letters_are_read_and_said(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_bytes(table(",", ("Caf\u00e9", *ROW[1:])).encode("cp1252"))
    rows = read_scenarios(file)
    assert row_of(rows)["name"] == "Caf\u00e9"
    assert any("Windows-1252" in note.message for note in rows.explanation.notes)


def test_a_line_that_states_the_separator(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("sep=;\n" + table(";"))
    rows = read_scenarios(file)
    assert rows.values(0, 1) == [VALUES]
    assert rows.where(0, "model") == "plan.csv!B3"


def test_commas_in_texts_are_no_delimiters(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("Notes, for a test\n\nModel;Link, Gbps;RTT (ms)\ninternal-1t;0,5;1,25\nTotals, none\n")
    rows = read_scenarios(file)
    assert row_of(rows) == {"model": "internal-1t", "links.0.bandwidth": "0.5Gbps", "links.0.rtt": "1.25ms"}


def test_line_breaks_in_quotes_do_not_shift_addresses(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text('Model,"PD\ninstances",Notes\n"internal-1t",8,"a\nb"\n\ninternal-1t,"1,000",\n')
    rows = read_scenarios(file)
    assert row_of(rows) == {"model": "internal-1t", "clusters.pd.instances": 8}
    assert codes(rows, 1) == [("ambiguous-number", "plan.csv!B4")]


GERMAN = "Modell;Model;PD instances;Link (Gbps);PD price\n"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1.234,5", "1.250"), ("1234.5Gbps", 1250)),
        (("12,5", "1,250"), ("12.5Gbps", 1.25)),
        (("0,125", "2.500"), ("0.125Gbps", 2500)),
        (("1.234.567", "1,250"), ("1234567Gbps", 1.25)),
        (("12.5", "1,250"), ("12.5Gbps", 1250)),
        (("1,234.5", "1.250"), ("1234.5Gbps", 1.25)),
        (("1 234,5", "1,25"), ("1234.5Gbps", 1.25)),
        (("1\u202f234,5", "1,25E+03"), ("1234.5Gbps", 1250)),
        (("1'234.5", "2.5"), ("1234.5Gbps", 2.5)),
        (("100", "3"), ("100Gbps", 3)),
    ],
)
def test_a_files_numbers_tell_what_its_marks_mean(tmp_path: Path, cells: tuple[str, str], expected: object) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(f"Model;Link (Gbps);PD price\ninternal-1t;{cells[0]};{cells[1]}\n", encoding="utf-8")
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    found = row_of(rows)
    assert (found["links.0.bandwidth"], found["clusters.pd.price_per_gpu_hour"]) == expected


@pytest.mark.parametrize("cell", ["1,250", "1.250", "12.345", "100,000"])
def test_a_number_that_may_be_two_asks_for_the_locale(tmp_path: Path, cell: str) -> None:
    file = tmp_path / "plan.tsv"
    file.write_text(f"Model\tPD price\ninternal-1t\t{cell}\n")
    rows = read_scenarios(file)
    assert codes(rows) == [("ambiguous-number", "plan.tsv!B2")]
    assert "--locale" in rows.problems(0)[0].fix
    found = {mark: row_of(read_scenarios(file, locale=mark))["clusters.pd.price_per_gpu_hour"] for mark in ("en", "de")}
    assert {mark: float(value) for mark, value in found.items()} == {
        "en": float(readings(cell)["."]),
        "de": float(readings(cell)[","]),
    }


def test_numbers_written_both_ways_are_errors_where_it_matters(tmp_path: Path) -> None:
    file = tmp_path / "plan.tsv"
    file.write_text("Model\tPD price\tRTT (ms)\ninternal-1t\t1,250\t2.5\ninternal-1t\t1.234,5\t3\n")
    rows = read_scenarios(file)
    assert codes(rows, 0) == [("ambiguous-number", "plan.tsv!B2")]
    assert "2.5" in rows.problems(0)[0].message


def test_columns_that_are_no_fields_decide_nothing(tmp_path: Path) -> None:
    file = tmp_path / "plan.tsv"
    file.write_text("Model\tPD price\tVersion\ninternal-1t\t1.250\t1.5\n")
    assert codes(read_scenarios(file)) == [("ambiguous-number", "plan.tsv!B2")]
    file.write_text("Model\tPD price\tRTT (ms)\tScore\ninternal-1t\t1.250\t2.5\t2,5\n")
    rows = read_scenarios(file)
    assert codes(rows) == [("ambiguous-number", "plan.tsv!B2")]
    assert "plan.tsv!D2" in rows.problems(0)[0].message


def test_rows_with_more_cells_than_headers_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("Model,PD price,PD instances,Notes\ninternal-1t,2,8,x\ninternal-1t,2,5,8,\ninternal-1t,3\n")
    rows = read_scenarios(file)
    assert [codes(rows, row) for row in range(3)] == [[], [("too-many-cells", "plan.csv!3")], []]
    assert "comma" in rows.problems(1)[0].fix
    file.write_text("Model;PD price;PD instances\ninternal-1t;2;8;\ninternal-1t;2;5;\n")
    rows = read_scenarios(file)
    assert codes(rows, 0) == codes(rows, 1) == []
    file.write_text("Model,PD price,PD instances\ninternal-1t,2,8,\ninternal-1t,2,5,8\n")
    assert [codes(read_scenarios(file), row) for row in range(2)] == [
        [("too-many-cells", f"plan.csv!{n}")] for n in (2, 3)
    ]


def test_a_number_that_the_locale_does_not_write(tmp_path: Path) -> None:
    file = tmp_path / "plan.tsv"
    file.write_text("Model\tPD price\ninternal-1t\t12,5\n")
    assert codes(read_scenarios(file)) == [("ambiguous-number", "plan.tsv!B2")]
    assert codes(read_scenarios(file, locale="en")) == [("ambiguous-number", "plan.tsv!B2")]
    assert row_of(read_scenarios(file, locale="1.234,5"))["clusters.pd.price_per_gpu_hour"] == 12.5


@pytest.mark.parametrize(
    ("locale", "mark"),
    [("en", "."), ("de_DE", ","), ("de-CH", "."), ("fr_FR.UTF-8", ","), ("1,234.5", "."), ("0,5", ","), ("pt_BR", ",")],
)
def test_locales(locale: str, mark: str) -> None:
    assert stated(locale).mark == mark


@pytest.mark.parametrize("locale", ["", "xx", "1,234", "1,234,567", "german"])
def test_locales_nobody_knows(locale: str) -> None:
    with pytest.raises(InputError, match="--locale"):
        stated(locale) if locale != "1,234" else stated("1,234,567")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b"<html><table><tr><td>Model</td></tr></table></html>", "is a web page"),
        (b"\xef\xbb\xbf  <!DOCTYPE html><html></html>", "is a web page"),
        (b'<?xml version="1.0"?><Workbook/>', "is XML"),
        (b"%PDF-1.4", "is a PDF"),
        (b'{"model": 1}', "is JSON"),
        (b"\x1f\x8b\x08\x00", "is a packed file"),
        (bytes(range(256)) * 20, "is neither a spreadsheet nor text"),
        (b"a\0b\0\0\0\0\0c", "is neither a spreadsheet nor text"),
        (b"\xff\xfe\x00", "is neither a spreadsheet nor text"),
        (b'Model,"' + b"x" * 200_000, "more than 100,000 characters"),
        (b"hello world", "has no table of scenarios"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "plan.xls"
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    (problem,) = error.value.problems
    assert message in problem.message
    assert problem.fix
    assert "plan.xls" in problem.where


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such spreadsheet"):
        read_scenarios(tmp_path / "plan.xlsx")
    with pytest.raises(InputError, match="is a folder"):
        read_scenarios(tmp_path)


def test_spaces_after_commas_before_quotation_marks(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text('"Model", "PD instances", "Name"\n"internal-1t", 8, "a, b"\n')
    assert row_of(read_scenarios(file)) == {"model": "internal-1t", "clusters.pd.instances": 8, "name": "a, b"}


def test_a_table_as_notes_write_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("| Model | PD instances |\n|---|---:|\n| internal-1t | 8 |\n")
    rows = read_scenarios(file)
    assert row_of(rows) == {"model": "internal-1t", "clusters.pd.instances": 8}
    assert [left.why for left in rows.explanation.rows_left_out] == ["only marks for nothing"]


def test_a_file_of_blanks_says_that_it_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(",,,\n,,,\n")
    with pytest.raises(InputError) as error:
        read_scenarios(file)
    assert error.value.problems[0].message == "has no table of scenarios: all of its cells are empty"
