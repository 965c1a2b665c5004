"""``prfaas-opt study``: what it prints, its exit codes, its JSON, and its bar, which is for terminals only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.cli import app
from tests import studies

SMALL = "axes: [{grid: {links.0.bandwidth: [1Gbps, 10Gbps], clusters.pd.instances: [4, 8]}}]\n"
INFEASIBLE = "axes: [{grid: {slo.tokens_per_s: [1000, 2000]}}]\n"
WRONG = "axes: [{grid: {clusters.prfaas.hardware: [TPU, GPU]}}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "a.yaml").write_text(studies.STUDY, encoding="utf-8")
    (tmp_path / "infeasible.yaml").write_text(INFEASIBLE, encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(WRONG, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["study", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def answer(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


@pytest.mark.usefixtures("folder")
def test_a_study_is_summed_up_and_written() -> None:
    done = run("a.yaml", "-o", "out.parquet")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"a study: \d+ of 120 rows have a plan", lines[0])
    assert "Sample: 20 rows, sobol, seed 7." in lines
    assert lines[-1] == "Written: out.parquet"
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"Planned 120 rows in [\d.]+ s, [\d,]+ rows/s\.\n", done.stderr)
    assert Path("out.parquet").exists()
    again = run("a.yaml", "-o", "out.parquet")
    assert again.exit_code == 4
    assert "add --fresh to replace it" in again.stderr
    assert run("a.yaml", "-o", "out.parquet", "--fresh").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_stdout_is_the_same_every_time() -> None:
    first, second = run("a.yaml"), run("a.yaml", "--workers", "2")
    assert first.stdout == second.stdout
    assert "All 4 rows have a plan" in run("small.yaml").stdout


@pytest.mark.usefixtures("folder")
def test_json_is_what_its_schema_says() -> None:
    for arguments, name in ((["a.yaml", "-o", "o.csv"], "study"), (["a.yaml", "--explain"], "study-explain")):
        document = answer(*arguments)
        assert document["command"] == "study"
        assert document["status"] == "ok"
        jsonschema.Draft202012Validator(schemas.schema(name)).validate(document)
    assert document["data"]["rows"] == 120
    failed = answer("missing.yaml")
    assert failed["status"] == "error"
    assert failed["errors"][0]["code"] == "missing-file"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["small.yaml"], 0, ""),
        (["small.yaml", "--strict"], 0, ""),
        (["a.yaml"], 0, ""),
        (["a.yaml", "--strict"], 6, ""),
        (["infeasible.yaml"], 3, ""),
        (["infeasible.yaml", "--strict"], 3, ""),
        (["wrong.yaml"], 4, ""),
        (["a.yaml", "-o", "out.txt"], 4, "expected one of .csv"),
        (["a.yaml", "--sheet", "x"], 4, "is for spreadsheets"),
        (["a.yaml", "--engine", "dask"], 4, "found no address of a scheduler"),
        (["a.yaml", "--scheduler", "tcp://x:1"], 4, "add --engine dask"),
        (["a.yaml", "--workers", "0"], 2, "--workers"),
        (["a.yaml", "--engine", "spark"], 2, "--engine"),
        (["a.yaml", "--set", "slo.tokens_per_s"], 4, "expected PATH=VALUE"),
        (["a.yaml", "--base", "kimi-linear"], 4, "add --set model=kimi-linear"),
        (["a.yaml", "--base", "nowhere.yaml"], 4, "there is no scenario file nowhere.yaml"),
        ([], 2, "FILE"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, says: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code, done.output
    assert says in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("folder")
def test_a_study_without_a_plan_says_so_to_programs() -> None:
    document = answer("infeasible.yaml")
    assert document["status"] == "failed"
    assert document["data"]["planned"] == 0
    assert document["data"]["failures"][0]["rows"] == 2


@pytest.mark.usefixtures("folder")
def test_a_bug_in_a_row_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from prfaas_opt.study import chunks

    whole = chunks.plan_chunk

    def buggy(rows: Any, start: int, stop: int) -> Any:
        if start <= 2 < stop:
            raise ZeroDivisionError("no")
        return whole(rows, start, stop)

    monkeypatch.setattr(chunks, "plan_chunk", buggy)
    done = run("small.yaml", "-o", "out.csv")
    assert done.exit_code == 1
    assert "error: 1 row met a bug in prfaas-opt; its error code says which" in done.stderr
    assert "ZeroDivisionError: no. This is a bug" in re.sub(r"\s+", " ", done.stdout)
    assert "3 of 4 rows have a plan" in done.stdout
    assert len(Path("out.csv").read_text().splitlines()) == 5


@pytest.mark.usefixtures("folder")
def test_explain_plans_nothing() -> None:
    done = run("a.yaml", "--explain")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "a study: 120 rows; base: built-in case study"
    assert any(re.search(r"axes\[1\] +slo.tokens_per_s +sobol +10.0 to 60.0, linear +20", line) for line in lines)
    assert max(map(len, lines)) <= 80
    assert done.stderr == ""


@pytest.mark.usefixtures("folder")
def test_the_base_can_be_another_and_be_changed() -> None:
    base = (studies.ROOT / "prfaas_opt/io/case_study.yaml").read_text(encoding="utf-8")
    Path("base.yaml").write_text(base.replace("instances: 4", "instances: 1"), encoding="utf-8")
    best = [
        answer("small.yaml", *more)["data"]["best"][0]["served_rps"]
        for more in ([], ["--base", "base.yaml"], ["--base", "base.yaml", "--set", "clusters.prfaas.instances=4"])
    ]
    assert best[1] < best[0] == best[2]


@pytest.mark.usefixtures("folder")
def test_a_spreadsheet_is_a_study_too() -> None:
    header = "Model,Workload,GPU (prefill),Prefill instances,GPU (PD),PD instances,Link (Gbps),SLO (tokens/s)"
    row = "internal-1t,prfaas-case-study,H200,4,H20,8,100,40"
    Path("plan.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    document = answer("plan.csv", "-o", "out.parquet")
    assert document["data"]["planned"] == 1
    assert round(document["data"]["best"][0]["served_rps"], 3) == 3.149
    explained = answer("plan.csv", "--explain")
    jsonschema.Draft202012Validator(schemas.schema("study-explain-sheet")).validate(explained)
    assert "Prefill instances" in run("plan.csv", "--explain").stdout


def test_two_words_are_one_command_and_a_file_of_that_name_another(tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["study", "report", str(tmp_path / "out.parquet")])
    assert "out.parquet" in missing.output
    assert missing.exit_code == 4
    file = tmp_path / "report"
    file.write_text("axes: [{grid: {clusters.pd.instances: [4]}}]", encoding="utf-8")
    assert "report: The row has a plan" in CliRunner().invoke(app, ["study", str(file)]).stdout
    usage = CliRunner().invoke(app, ["study", "report", "--help"]).stdout
    assert re.search(r"Usage: .*study report \[OPTIONS\] ", usage)


def test_a_command_loads_no_other() -> None:
    code = "import sys; from prfaas_opt.cli import main; sys.argv[1:] = ['kv']; main()"
    script = f"try:\n    exec({code!r})\nexcept SystemExit:\n    print([m for m in sys.modules if '.cli.' in m])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "prfaas_opt.cli.kv" in loaded
    assert "prfaas_opt.cli.plan'" not in loaded


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_is_shown_on_a_terminal_only(folder: Path) -> None:
    import pty

    command = [sys.executable, "-m", "prfaas_opt", "study", "a.yaml", "-o"]
    environment = os.environ | {"PYTHONPATH": str(studies.ROOT), "TERM": "xterm", "COLUMNS": "100"}
    quiet = subprocess.run([*command, "1.parquet"], cwd=folder, env=environment, capture_output=True, text=True)
    assert quiet.returncode == 0, quiet.stderr
    assert re.fullmatch(r"Planned 120 rows in .*\n", quiet.stderr)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, "2.parquet"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not read:
            break
        shown += read
    os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    text = shown.decode(errors="replace")
    assert "planning" in text
    assert "120/120" in text
    assert b"planning" not in out
    assert (folder / "1.parquet").read_bytes() == (folder / "2.parquet").read_bytes()


def test_start_up_takes_nothing_heavy() -> None:
    code = (
        "import sys, prfaas_opt.cli\n"
        "heavy = {'pyarrow', 'distributed', 'scipy', 'pandas', 'openpyxl', 'rich.progress', 'multiprocessing'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=studies.ROOT, check=True)
    assert done.stdout == "[]\n"
