"""Hostile files are refused with a clear error, soon and in little memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile_sheets import FILES

MOST_SECONDS = 3.0
"""Of processor time, the start of the interpreter included."""
MOST_BYTES = 400 * 2**20

PROGRAM = """
import json, resource, sys, time
from prfaas_opt.errors import InputError
from prfaas_opt.sheets.reading import read_scenarios
try:
    read_scenarios(sys.argv[1])
    found = []
except InputError as error:
    found = [[p.code, p.where, p.message, p.fix] for p in error.problems]
used = resource.getrusage(resource.RUSAGE_SELF)
with open("/proc/self/status") as status:  # ru_maxrss has that of the parent in it
    peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"problems": found, "seconds": used.ru_utime + used.ru_stime, "bytes": peak_kib * 1024}))
"""


def _limit() -> None:
    # Far beyond what is allowed, so that a failure is told by its figures, yet no harm to the machine.
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@pytest.mark.parametrize("kind", FILES)
def test_hostile_files_are_refused(kind: str, tmp_path: Path) -> None:
    make, message = FILES[kind]
    file = make(tmp_path / ("plan.csv" if "CSV" in kind else "plan.ods" if "ODS" in kind else "plan.xlsx"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, check=False, preexec_fn=_limit
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["problems"], "it was read"
    (code, where, found, fix), *_ = told["problems"]
    assert message in found
    assert code
    assert fix
    assert file.name in where
    assert told["bytes"] < MOST_BYTES
    assert told["seconds"] < MOST_SECONDS
