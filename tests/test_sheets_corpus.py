"""A workbook that has what planners' files do."""

from __future__ import annotations

from pathlib import Path

import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.sheets.reading import read_scenarios
from tests.sheets import HEADERS, ROW, workbook

PITFALLS = Path(__file__).resolve().parents[2] / "shared" / "formats" / "spreadsheets" / "made_pitfalls.xlsx"
pytestmark = pytest.mark.skipif(not PITFALLS.is_file(), reason="the sample workbook is not beside this checkout")


def test_the_pitfalls_are_told_all_at_once() -> None:
    with pytest.raises(InputError) as error:
        read_scenarios(PITFALLS)
    assert [(problem.code, problem.where) for problem in error.value.problems] == [
        ("no-scenarios", "made_pitfalls.xlsx"),
        ("uncalculated-formula", "Prefill!D5"),
        ("ambiguous-number", "Prefill!C7"),
        ("uncalculated-formula", "Prefill!C13"),
    ]
    assert '"32,768" at Prefill!B7 and "45,0" at Prefill!E7' in str(error.value)


def test_a_locale_settles_what_is_ambiguous() -> None:
    with pytest.raises(InputError) as error:
        read_scenarios(PITFALLS, locale="en")
    assert "Prefill!C7" not in [problem.where for problem in error.value.problems]


def test_beside_scenarios_the_profile_marks_the_rows_that_name_it(tmp_path: Path) -> None:
    import openpyxl

    file = workbook(tmp_path / "plan.xlsx", {"Scenarios": [HEADERS, ROW, (ROW[0], "minimax-M2.5", *ROW[2:])]})
    book, pitfalls = openpyxl.load_workbook(file), openpyxl.load_workbook(PITFALLS)
    sheet = book.create_sheet("Prefill")
    for row in pitfalls["Prefill"].iter_rows():
        for cell in row:
            sheet[cell.coordinate] = cell.value
            sheet[cell.coordinate].number_format = cell.number_format
    sheet.merge_cells("B2:E2")
    book.save(file)
    rows = read_scenarios(file)
    assert rows.problems(0) == ()
    assert [problem.where for problem in rows.problems(1)] == ["Prefill!D5", "Prefill!C7", "Prefill!C13"]
    (taken,) = rows.explanation.taken
    assert (taken.kind, taken.name) == ("model", "MiniMax-M2.5")
