"""Running studies: whatever happens to a run, the same command ends with the same bytes."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from prfaas_opt import study_api
from prfaas_opt.errors import InputError, Problem, SolverError
from prfaas_opt.study.chunks import rows_at_once
from prfaas_opt.study.definition import read_study
from prfaas_opt.study.engines.chunk import INTERNAL, WORKER_DIED, from_bytes
from prfaas_opt.study.engines.local import InProcess, Processes
from prfaas_opt.study.run import Progress, run_rows
from prfaas_opt.study.summary import StudyRun
from prfaas_opt.study.work_folder import MANIFEST, work_folder_of
from tests import studies
from tests.studies import CHUNK_ROWS, CHUNKS, Buggy, Deadly, Slow, like, parts_of, start, wait_for_parts


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a run that nothing happened to."""
    output = tmp_path_factory.mktemp("undisturbed") / "out.parquet"
    run_rows(studies.rows_of_study(), InProcess(), output, inputs={}, chunk_rows=CHUNK_ROWS)
    return output


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "study.yaml"
    file.write_text(studies.STUDY, encoding="utf-8")
    return file


def run(study: Path, output: Path, **more: Any) -> StudyRun:
    return study_api.run_study(study, output, **({"chunk_rows": CHUNK_ROWS} | more))


def problem_of(study: Path, output: Path, **more: Any) -> Problem:
    with pytest.raises(InputError) as caught:
        run(study, output, **more)
    (problem,) = caught.value.problems
    return problem


def rows_in(output: Path) -> list[dict[str, Any]]:
    return pq.read_table(output).to_pylist()


def alike(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Whether rows are the same but for the last digit: which rows are planned together may change it."""
    return len(rows) == len(others) and all(
        row.keys() == other.keys()
        and all(value == other[key] or _close(value, other[key]) for key, value in row.items())
        for row, other in zip(rows, others, strict=True)
    )


def _close(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return isinstance(value, str) and value[:1] in "[{" and isinstance(other, str)


def test_every_row_is_there_once_with_its_plan(study: Path, tmp_path: Path) -> None:
    from prfaas_opt.api import load_scenario
    from prfaas_opt.errors import PrfaasOptError
    from prfaas_opt.planning.plan import planned_alone
    from prfaas_opt.study.definition import read_study

    output = tmp_path / "out.parquet"
    done = run(study, output)
    found = rows_in(output)
    assert [row["row"] for row in found] == list(range(120))
    rows = read_study(study)
    served = 0
    for row, values in list(zip(found, rows.values(0, 120), strict=True))[::7]:
        scenario = load_scenario(overrides={k: str(v) for k, v in zip(rows.fields, values, strict=True)})
        try:
            plan = planned_alone(scenario, None)
        except PrfaasOptError as error:
            ended: tuple[str, str | None, int | None] = (error.status, error.problems[0].code, None)
        else:
            ended = (plan.status, None, plan.threshold_tokens)
            assert row["served_rps"] == pytest.approx(plan.served_rps, rel=1e-12)
            served += 1
        assert (row["status"], row["error_code"], row["threshold_tokens"]) == ended
    assert served > 5
    planned = [row for row in found if row["error_code"] is None]
    assert (done.rows, done.planned, done.kept) == (120, len(planned), 0)
    assert sum(each.rows for each in done.failures) == 120 - len(planned)
    assert done.failures[0].row == min(row["row"] for row in found if row["error_code"] == done.failures[0].code)
    best = max(planned, key=lambda row: (row["served_rps"], -row["row"]))
    assert (done.best[0].row, done.best[0].served_rps) == (best["row"], best["served_rps"])
    assert done.samples[0].seed == 7
    assert not work_folder_of(output).exists()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_the_number_of_workers_changes_nothing(study: Path, tmp_path: Path, ending: str) -> None:
    written = {}
    for workers in (1, 2, 3) if ending == "parquet" else (1, 2):
        output = tmp_path / f"{workers}.{ending}"
        done = run(study, output, workers=workers)
        assert done.rows == 120
        written[workers] = output.read_bytes()
    assert len(set(written.values())) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_after_kills_the_same_command_ends_with_the_same_bytes(study: Path, tmp_path: Path, workers: int) -> None:
    undisturbed, output = tmp_path / "undisturbed.parquet", tmp_path / "out.parquet"
    run(study, undisturbed)
    draw = random.Random(workers)
    targets = sorted(draw.sample(range(1, CHUNKS), 3 if workers == 1 else 2))
    kept = 0
    for target in targets:
        process = start(study, output, workers)
        wait_for_parts(output, target, process)
        time.sleep(draw.uniform(0, 0.01))
        process.kill()
        process.communicate()
        found = len(parts_of(output))
        if output.exists():  # it was quicker than the kill
            break
        assert found >= max(target, kept)
        kept = found
    if not output.exists():
        done = run(study, output, workers=workers)
        assert done.kept == min(120, kept * CHUNK_ROWS)
    assert kept
    assert output.read_bytes() == undisturbed.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == ["out.parquet"]


def test_workers_end_when_their_run_is_killed(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    process = start(study, output, workers=2)
    wait_for_parts(output, 1, process)
    process.kill()
    process.communicate()  # its pipes close only when no worker holds them any more
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _group(process.pid):
        time.sleep(0.05)
    assert _group(process.pid) == []


def _group(leader: int) -> list[int]:
    """Living processes of a group; a zombie is none."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_a_worker_that_dies_is_replaced_and_its_chunk_planned_again(undisturbed: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    rows = like(Deadly, row=40, marker=str(tmp_path / "died"))
    done = run_rows(rows, Processes(2), output, inputs={}, chunk_rows=CHUNK_ROWS)
    assert (tmp_path / "died").exists()
    assert done.bugs == 0
    assert output.read_bytes() == undisturbed.read_bytes()


def test_a_row_that_ends_its_workers_is_marked_and_no_other(undisturbed: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    done = run_rows(like(Deadly, row=40), Processes(2), output, inputs={}, chunk_rows=CHUNK_ROWS)
    found, expected = rows_in(output), rows_in(undisturbed)
    assert found[40]["error_code"] == WORKER_DIED
    assert found[40]["status"] == "error"
    assert alike(found[:40] + found[41:], expected[:40] + expected[41:])
    assert done.bugs == 1


def test_workers_that_all_end_end_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prfaas_opt.study.engines import local

    monkeypatch.setattr(local, "MOST_DEATHS", 3)
    output = tmp_path / "out.parquet"
    with pytest.raises(SolverError, match="worker processes keep ending"):
        run_rows(like(Deadly, row=0), Processes(2), output, inputs={}, chunk_rows=100)


def test_a_script_without_a_guard_is_told_of_it(study: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from prfaas_opt.study_api import run_study\nrun_study({str(study)!r}, workers=2)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=studies.ROOT)
    assert 'in a script, call this inside: if __name__ == "__main__":' in done.stderr


def test_a_bug_in_a_row_is_a_row_with_a_code(undisturbed: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    done = run_rows(like(Buggy, bad=(3, 50)), InProcess(), output, inputs={}, chunk_rows=CHUNK_ROWS)
    found, expected = rows_in(output), rows_in(undisturbed)
    for bad in (3, 50):
        assert found[bad]["error_code"] == INTERNAL
        assert f"RuntimeError: row {bad} is bad. This is a bug" in found[bad]["error"]
    good = [i for i in range(120) if i not in (3, 50)]
    assert alike([found[i] for i in good], [expected[i] for i in good])
    assert done.bugs == 2
    assert {each.code: each.rows for each in done.failures}[INTERNAL] == 2


def interrupted(study: Path, output: Path) -> None:
    """Leaves a run half done."""

    def stop(progress: Progress) -> None:
        if progress.done >= 60:
            raise KeyboardInterrupt

    with pytest.raises(study_api.StudyInterrupted) as caught:
        run(study, output, show=stop)
    assert caught.value.message == (
        f"60 of 120 rows are done and kept in {work_folder_of(output)}; the same command goes on"
    )


def test_a_part_that_is_damaged_is_planned_again(study: Path, tmp_path: Path) -> None:
    undisturbed, output = tmp_path / "undisturbed.parquet", tmp_path / "out.parquet"
    run(study, undisturbed)
    interrupted(study, output)
    first, second, *_ = parts_of(output)
    payload = bytearray(first.read_bytes())
    payload[len(payload) // 2] ^= 1
    first.write_bytes(payload)
    second.write_bytes(second.read_bytes()[:-10])
    done = run(study, output)
    assert done.kept == 60 - 2 * CHUNK_ROWS
    assert output.read_bytes() == undisturbed.read_bytes()


def test_parts_of_another_study_are_refused_and_dropped_with_fresh(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    interrupted(study, output)
    study.write_text(studies.STUDY.replace("1Gbps", "2Gbps"), encoding="utf-8")
    problem = problem_of(study, output)
    assert problem.code == "study-changed"
    assert problem.message == "holds 10 parts of a study that was not the same: the file study.yaml differs"
    assert "--fresh" in problem.fix
    assert len(parts_of(output)) == 10
    done = run(study, output, fresh=True)
    assert done.kept == 0
    assert rows_in(output)[0]["input.links.0.bandwidth_gbps"] == 2.0


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("model", "model mine"),
        ("base", "the base scenario"),
        ("objective", "the objective"),
        ("detail", "the detail"),
        ("set", "the options, the base scenario"),
        ("chunks", "the rows of a part"),
    ],
)
def test_what_a_result_depends_on_is_told_by_name(tmp_path: Path, what: str, names: str) -> None:
    (tmp_path / "models").mkdir()
    model = tmp_path / "models" / "mine.yaml"
    model.write_text((studies.ROOT / "models/minimax-m2.5.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    case_study = (studies.ROOT / "prfaas_opt/io/case_study.yaml").read_text(encoding="utf-8")
    (tmp_path / "base.yaml").write_text(case_study, encoding="utf-8")
    study, output = tmp_path / "study.yaml", tmp_path / "out.parquet"
    study.write_text("base: base.yaml\n" + studies.STUDY.replace("minimax-m2.5", "mine"), encoding="utf-8")
    interrupted(study, output)
    more: dict[str, Any] = {}
    if what == "model":
        model.write_text(model.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    elif what == "base":
        (tmp_path / "base.yaml").write_text(case_study.replace("instances: 4", "instances: 5"), encoding="utf-8")
    elif what == "objective":
        study.write_text(study.read_text(encoding="utf-8") + "objective: throughput\n", encoding="utf-8")
        names = f"{names}, the file study.yaml"
    elif what == "detail":
        more["detail"] = "full"
    elif what == "set":
        more["overrides"] = {"slo.tokens_per_s": "30"}
    else:
        more["chunk_rows"] = 7
    problem = problem_of(study, output, **more)
    assert f"not the same: {names} differ" in problem.message


def test_another_model_beside_the_study_changes_nothing(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    interrupted(study, output)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "other.yaml").write_text("name: other\n", encoding="utf-8")
    assert run(study, output).kept == 60


def test_two_runs_at_one_output_are_kept_apart(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    seen: list[Problem] = []

    def try_another(progress: Progress) -> None:
        if progress.done == 60 and not seen:
            seen.append(problem_of(study, output))

    run(study, output, show=try_another)
    (problem,) = seen
    assert problem.code == "in-use"
    assert problem.message == f"is in use by another run (process {os.getpid()})"
    assert len(rows_in(output)) == 120


def test_the_lock_of_a_process_that_is_no_more_is_taken_over(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    process = start(study, output)
    wait_for_parts(output, 2, process)
    process.kill()
    process.communicate()
    if not output.exists():
        assert (work_folder_of(output) / "lock").exists()
        assert run(study, output).rows == 120


def test_outputs_that_cannot_be(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    run(study, output)
    before = output.read_bytes()
    assert problem_of(study, output).code == "file-exists"
    assert run(study, output, fresh=True).rows == 120
    assert output.read_bytes() == before
    assert problem_of(study, tmp_path / "out.txt").code == "unknown-format"
    assert problem_of(study, tmp_path / "nowhere" / "out.csv").code == "missing-file"
    (tmp_path / "folder.csv").mkdir()
    assert problem_of(study, tmp_path / "folder.csv").code == "not-writable"
    assert problem_of(study, study).code == "file-exists"
    (tmp_path / "mine.csv.parts").mkdir()
    (tmp_path / "mine.csv.parts" / "notes.txt").write_text("mine")
    problem = problem_of(study, tmp_path / "mine.csv")
    assert (problem.code, "notes.txt" in problem.message) == ("file-exists", True)
    assert (tmp_path / "mine.csv.parts" / "notes.txt").read_text() == "mine"
    (tmp_path / "a.csv.parts").write_text("a file")
    assert problem_of(study, tmp_path / "a.csv").code == "not-writable"


def test_an_output_whose_parts_were_not_all_removed_is_made_again(study: Path, tmp_path: Path) -> None:
    """A kill while parts are removed leaves some, and the manifest."""
    output = tmp_path / "out.parquet"
    interrupted(study, output)
    saved = {path.name: path.read_bytes() for path in work_folder_of(output).iterdir()}
    run(study, output)
    before = output.read_bytes()
    work_folder_of(output).mkdir()
    for name in (MANIFEST, "lock", *sorted(saved)[:3]):
        (work_folder_of(output) / name).write_bytes(saved[name])
    run(study, output)
    assert output.read_bytes() == before
    assert not work_folder_of(output).exists()


def test_a_full_disk_is_an_error_that_keeps_what_is_done(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.parquet"
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 12:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        problem = problem_of(study, output)
    assert problem.code == "not-writable"
    assert "No space left on device" in problem.message
    kept = len(parts_of(output))
    assert 2 <= kept < CHUNKS
    assert not list(work_folder_of(output).glob(".writing-*"))
    assert run(study, output).kept == kept * CHUNK_ROWS


def test_files_that_may_not_grow_are_an_error(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    limited = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "from prfaas_opt.errors import InputError\n"
        "from prfaas_opt.study_api import run_study\n"
        f"try:\n    run_study({str(study)!r}, {str(output)!r}, chunk_rows={CHUNK_ROWS})\n"
        "except InputError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, cwd=studies.ROOT)
    assert "cannot be written: File too large" in done.stdout
    assert done.stderr == ""
    assert not output.exists()
    assert run(study, output).rows == 120


def test_parts_hold_what_the_output_does(study: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    interrupted(study, output)
    rows = [row for part in parts_of(output) for row in from_bytes(part.read_bytes()).to_pylist()]
    run(study, output)
    assert rows == rows_in(output)[:60]


@pytest.mark.parametrize("fault", ["lost", "doubled"])
def test_an_output_without_every_row_once_is_never_written(tmp_path: Path, fault: str) -> None:
    class Faulty(InProcess):
        def planned(self, rows: Any, chunks: Any) -> Any:
            for number, payload in super().planned(rows, chunks):
                if number != 3:
                    yield number, payload
                elif fault == "doubled":
                    yield from ((number, payload), (number, payload))

    output = tmp_path / "out.parquet"
    with pytest.raises(RuntimeError, match="of 120 rows came back from planning"):
        run_rows(studies.rows_of_study(), Faulty(), output, inputs={}, chunk_rows=CHUNK_ROWS)
    assert not output.exists()


def test_a_study_of_nothing_is_an_error(tmp_path: Path) -> None:
    class Empty(Slow):
        def __len__(self) -> int:
            return 0

    with pytest.raises(InputError, match="has no rows"):
        run_rows(like(Empty), InProcess(), tmp_path / "out.csv", inputs={})


def test_a_run_from_a_mapping_needs_no_file(tmp_path: Path) -> None:
    import yaml

    output = tmp_path / "out.jsonl"
    done = study_api.run_study(yaml.safe_load(studies.STUDY), output)
    assert done.output == str(output)
    lines = output.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["row"] for line in lines] == list(range(120))


def test_the_summary_is_the_same_with_and_without_an_output(study: Path, tmp_path: Path) -> None:
    from msgspec.structs import replace

    output = tmp_path / "out.parquet"
    assert replace(run(study, output), output=None) == study_api.run_study(study, workers=2, chunk_rows=CHUNK_ROWS)


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(study: Path, tmp_path: Path) -> None:
    """The command itself, with the terminal's signal to it and its workers."""
    output = tmp_path / "out.parquet"
    big = studies.STUDY.replace("count: 20", "count: 20000")
    study.write_text(big, encoding="utf-8")
    command = [sys.executable, "-m", "prfaas_opt", "study", str(study), "-o", str(output), "--workers", "2"]
    process = subprocess.Popen(
        command,
        cwd=studies.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a job in the background ignores
    )
    wait_for_parts(output, 3, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    found = re.fullmatch(
        r"Stopped: ([\d,]+) of 120,000 rows are done and kept in (.+); the same command goes on\.\n", err
    )
    assert found, err
    assert int(found[1].replace(",", "")) == rows_at_once(read_study(study)) * len(parts_of(output))
    assert found[2] == str(work_folder_of(output))
    assert not output.exists()


def test_of_rows_that_serve_alike_the_cheaper_is_the_better() -> None:
    prices = {"clusters.prfaas.price_per_gpu_hour": [3, 1, 2], "clusters.pd.price_per_gpu_hour": [1]}
    run = study_api.run_study({"axes": [{"grid": prices}]})
    assert [each.row for each in run.best] == [1, 2, 0]
