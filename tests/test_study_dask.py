"""Studies on a Dask cluster: a scheduler and two workers on this machine, one of which is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prfaas_opt import study_api
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.study.engines import dask
from prfaas_opt.study.engines.chunk import INTERNAL, WORKER_DIED
from prfaas_opt.study.engines.dask import Dask
from prfaas_opt.study.engines.local import InProcess
from prfaas_opt.study.run import Progress, run_rows
from tests import studies
from tests.studies import CHUNK_ROWS, Buggy, Deadly, Slow, like

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the cluster's libraries are not ours to mend


@dataclass
class Cluster:
    """A scheduler's address, and the processes of its workers."""

    address: str
    workers: list[subprocess.Popen[bytes]]


def _started(*arguments: str, path: Path = studies.ROOT) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PYTHONPATH": str(path),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "false",
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with _running(tmp_path) as found:
        yield found


@contextlib.contextmanager
def _running(tmp_path: Path, scheduler: Path = studies.ROOT, worker: Path = studies.ROOT) -> Iterator[Cluster]:
    """A cluster whose processes find this program in these folders."""
    found = tmp_path / "scheduler.json"
    file = ("--scheduler-file", str(found))
    where = ("--host", "127.0.0.1", "--no-dashboard")
    processes = [_started("distributed.cli.dask_scheduler", "--port", "0", *where, *file, path=scheduler)]
    try:
        workers = [
            _started(
                "distributed.cli.dask_worker",
                *file,
                *("--nworkers", "1", "--nthreads", "1", "--no-nanny"),
                *where,
                *("--local-directory", str(tmp_path / f"worker-{number}"), "--name", str(number)),
                path=worker,
            )
            for number in range(2)
        ]
        processes += workers
        until = time.monotonic() + 30
        while not (found.exists() and found.read_text().strip().endswith("}")):
            assert time.monotonic() < until
            time.sleep(0.05)
        yield Cluster(json.loads(found.read_text())["address"], workers)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("undisturbed") / "out.parquet"
    run_rows(studies.rows_of_study(), InProcess(), output, inputs={}, chunk_rows=CHUNK_ROWS)
    return output


def test_nothing_is_lost_or_doubled_when_a_worker_is_killed(
    cluster: Cluster, undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.parquet"
    seen: list[int] = []

    def kill_one(progress: Progress) -> None:
        seen.append(progress.done)
        if progress.done >= 24 and cluster.workers[0].poll() is None:
            os.killpg(cluster.workers[0].pid, signal.SIGKILL)
            cluster.workers[0].wait()

    rows = like(Slow, seconds=0.05)
    done = run_rows(rows, Dask(cluster.address), output, inputs={}, chunk_rows=CHUNK_ROWS, show=kill_one)
    assert cluster.workers[0].poll() is not None
    assert cluster.workers[1].poll() is None
    assert done.rows == 120
    assert done.bugs == 0
    assert seen[:-20] == sorted(seen[:-20])
    assert output.read_bytes() == undisturbed.read_bytes()


def test_a_bug_in_a_row_is_a_row_with_a_code(cluster: Cluster, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    output = tmp_path / "out.parquet"
    done = run_rows(like(Buggy, bad=(3,)), Dask(cluster.address), output, inputs={}, chunk_rows=CHUNK_ROWS)
    codes = pq.read_table(output)["error_code"].to_pylist()
    assert [row for row, code in enumerate(codes) if code == INTERNAL] == [3]
    assert done.bugs == 1
    assert WORKER_DIED not in codes


def test_a_study_begun_on_a_cluster_goes_on_here(cluster: Cluster, undisturbed: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"

    def stop(progress: Progress) -> None:
        if progress.done >= 60:
            raise KeyboardInterrupt

    rows = studies.rows_of_study()
    with pytest.raises(study_api.StudyInterrupted):
        run_rows(rows, Dask(cluster.address), output, inputs={}, chunk_rows=CHUNK_ROWS, show=stop)
    done = run_rows(rows, InProcess(), output, inputs={}, chunk_rows=CHUNK_ROWS)
    assert done.kept == 60
    assert output.read_bytes() == undisturbed.read_bytes()


def test_another_version_on_a_worker_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "_versions", lambda: {"prfaas-opt": "9.9"})
    with pytest.raises(InputError, match=r"a worker has prfaas-opt [\d.]+, expected 9\.9"):
        run_rows(studies.rows_of_study(), Dask(cluster.address), None, inputs={}, chunk_rows=CHUNK_ROWS)


def test_the_command_runs_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    study, here, there = tmp_path / "study.yaml", tmp_path / "here.csv", tmp_path / "there.csv"
    study.write_text(studies.STUDY, encoding="utf-8")
    on_dask = ["--engine", "dask", "--scheduler", cluster.address]
    for output, more in ((here, []), (there, on_dask)):
        done = CliRunner().invoke(app, ["study", str(study), "-o", str(output), *more])
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("Planned 120 rows in ")
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("part", ["scheduler", "worker"])
def test_a_cluster_without_this_program_is_told_of_it(part: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "prfaas_opt").mkdir(parents=True)
    (other / "prfaas_opt" / "__init__.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    with (
        _running(tmp_path, **{part: other}) as cluster,
        pytest.raises(InputError, match=r"the cluster cannot load this program: \w+ ") as caught,
    ):
        run_rows(studies.rows_of_study(), Dask(cluster.address), None, inputs={}, chunk_rows=CHUNK_ROWS)
    assert caught.value.problems[0].fix == "install the same prfaas-opt on the scheduler and the workers"


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "ANSWER_S", 0.5)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run_rows(studies.rows_of_study(), Dask("tcp://127.0.0.1:9"), None, inputs={})
    with pytest.raises(InputError, match=r"no Dask scheduler answers at nonsense://x"):
        run_rows(studies.rows_of_study(), Dask("nonsense://x"), None, inputs={})


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'prfaas-opt\[dask\]'"):
        run_rows(studies.rows_of_study(), Dask("tcp://127.0.0.1:9"), None, inputs={})


def test_a_chunk_that_ends_its_workers_is_taken_apart() -> None:
    """The parts of a chunk, as the engine gets them, without a cluster for each of the workers that end."""
    from prfaas_opt.study.engines.chunk import Chunk, Pieces, from_bytes, planned_bytes

    rows = like(Deadly, row=4)
    pieces = Pieces(rows)
    todo = [Pieces.whole(Chunk(0, 0, CHUNK_ROWS))]
    whole, marked = None, []
    while todo:
        piece = todo.pop()
        if piece.start <= 4 < piece.stop:
            again = pieces.died(piece, deaths=2)
            todo += again
            if again:
                continue
            marked.append(piece.start)
            payload = pieces.marked(piece)
        else:
            payload = planned_bytes(rows, piece.start, piece.stop)
        assert whole is None
        whole = pieces.finished(piece, payload)
    assert marked == [4]
    assert whole is not None
    table = from_bytes(whole)
    assert table["row"].to_pylist() == list(range(CHUNK_ROWS))
    assert [code == WORKER_DIED for code in table["error_code"].to_pylist()] == [i == 4 for i in range(CHUNK_ROWS)]
