"""The workbook to start from is read back as the scenarios that it shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import openpyxl
import pytest
from openpyxl.worksheet.datavalidation import DataValidation
from typer.testing import CliRunner

from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.io import catalog
from prfaas_opt.io.scenario_file import load_scenario
from prfaas_opt.planning.plan import planned_alone
from prfaas_opt.sheets.catalogue import column_of
from prfaas_opt.sheets.reading import read_scenarios
from prfaas_opt.sheets.template import EXAMPLES, SCENARIOS, template_columns, write_template
from prfaas_opt.study.chunks import plan_chunk
from prfaas_opt.study.rows import UNSET


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_template(tmp_path_factory.mktemp("template") / "plan.xlsx")


def test_it_is_read_back_unchanged(path: Path) -> None:
    rows = read_scenarios(path)
    assert rows.explanation.problems == ()
    assert rows.explanation.rows_left_out == ()
    assert rows.extra_columns == ()
    assert rows.fields == tuple(column.path for column in template_columns())
    for example, values in zip(EXAMPLES, rows.values(0, 99), strict=True):
        for column, value in zip(template_columns(), values, strict=True):
            shown = example.get(column.path, column.example)
            if shown is None:
                assert value is UNSET
            elif isinstance(value, str) and not isinstance(shown, str):
                assert value == f"{shown}{column.unit}"
            else:
                assert value == shown


def test_its_first_row_is_the_case_study_and_every_row_has_a_plan(path: Path) -> None:
    table = plan_chunk(read_scenarios(path), 0, 99)
    assert table.column("error").to_pylist() == [None] * len(EXAMPLES)
    assert table.column("throughput_rps")[0].as_py() == pytest.approx(planned_alone(load_scenario()).throughput_rps)


def test_headers_have_units_and_notes_and_cells_offer_what_is_known(path: Path) -> None:
    book = openpyxl.load_workbook(path)
    sheet = book[SCENARIOS]
    headers = list(next(sheet.iter_rows(max_row=1)))
    assert [cell.value for cell in headers] == [column.header for column in template_columns()]
    for cell, column in zip(headers, template_columns(), strict=True):
        assert cell.comment is not None
        assert column.doc in cell.comment.text
    offered = {str(each.sqref).split(":")[0]: _words(book, each) for each in sheet.data_validations.dataValidation}
    place = {column.path: sheet.cell(2, index).coordinate for index, column in enumerate(template_columns(), 1)}
    assert offered[place["model"]] == list(catalog.entries("models"))
    assert offered[place["workload"]] == list(catalog.entries("workloads"))
    assert {"H20", "H200"} <= set(offered[place["clusters.pd.hardware"]])
    assert offered[place["estimator"]] == list(column_of("estimator").choices)
    assert sheet.freeze_panes == "B2"
    assert book["Lists"].sheet_state == "hidden"


def _words(book: openpyxl.Workbook, validation: DataValidation) -> list[str]:
    """The words that a list of cells offers."""
    sheet, _, cells = str(validation.formula1).lstrip("=").rpartition("!")
    return [str(row[0].value) for row in book[sheet][cells.replace("$", "")]]


def test_the_same_bytes_every_time(path: Path, tmp_path: Path) -> None:
    assert write_template(tmp_path / "again.xlsx").read_bytes() == path.read_bytes()


def test_a_file_is_replaced_only_if_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "plan.xlsx"
    path.write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        write_template(path)
    assert path.read_text() == "mine"
    write_template(path, replace=True)
    assert path.read_bytes().startswith(b"PK")
    assert [each.name for each in tmp_path.iterdir()] == ["plan.xlsx"]


@pytest.mark.parametrize("name", ["plan", "plan.csv", "plan.xls"])
def test_only_workbooks_are_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"expected \.xlsx"):
        write_template(tmp_path / name)


def test_the_command_writes_it_and_study_plans_it(tmp_path: Path) -> None:
    path, runner = tmp_path / "plan.xlsx", CliRunner()
    done = runner.invoke(app, ["sheet", "template", "-o", str(path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["data"] == {"path": str(path)}
    assert runner.invoke(app, ["sheet", "template", "-o", str(path)]).exit_code == 4
    out = tmp_path / "results.xlsx"
    done = runner.invoke(app, ["study", str(path), "-o", str(out), "--strict"])
    assert done.exit_code == 0, done.output
    assert "Results" in openpyxl.load_workbook(out, read_only=True).sheetnames


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_what_libreoffice_saves_of_it_is_read_as_the_same(path: Path, tmp_path: Path) -> None:
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    for kind in ("pdf", "ods", "xlsx"):
        command = ["soffice", profile, "--headless", "--convert-to", kind, "--outdir", str(tmp_path), str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=180)
    assert (tmp_path / "plan.pdf").read_bytes().startswith(b"%PDF")
    expected = read_scenarios(path)
    for kind in ("ods", "xlsx"):
        found = read_scenarios(tmp_path / f"plan.{kind}")
        assert found.fields == expected.fields
        assert found.values(0, 99) == expected.values(0, 99)
