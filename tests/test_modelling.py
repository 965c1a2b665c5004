"""The import of the modelling language: Ctrl-C at any moment of it ends the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED_IMPORT = """
import signal, sys, threading
from importlib.abc import MetaPathFinder

class Interrupts(MetaPathFinder):
    # As highspy's C++: an interrupt is a failed initialization, and there is none after it.
    failed = None

    def find_spec(self, name, path, target=None):
        if name != "highspy":
            return
        if self.failed is None:
            self.failed = False
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                self.failed = True
        if self.failed:
            raise ImportError("initialization failed")

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupts())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT + code], capture_output=True, text=True, check=True)


def test_cvxpy_itself_loses_it() -> None:
    """What the module is for; once this fails, the module can go."""
    assert run("import cvxpy; print('HIGHS' in cvxpy.installed_solvers())").stdout == "False\n"


@pytest.mark.parametrize("module", ["planning.solver", "planning.fleets.solve", "fitting.convex"])
def test_it_is_delivered_once_cvxpy_is_whole(module: str) -> None:
    code = (
        f"try:\n    import prfaas_opt.{module}\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "from prfaas_opt.modelling import cp\n"
        "print('HIGHS' in cp.installed_solvers(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    assert run(code).stdout == "interrupted\nTrue True\n"


def test_a_thread_imports_it_without_touching_signals() -> None:
    code = (
        "sys.meta_path.pop(0)\nfound = []\n"
        "def load():\n    from prfaas_opt.modelling import cp\n    found.append('HIGHS' in cp.installed_solvers())\n"
        "thread = threading.Thread(target=load)\nthread.start()\nthread.join()\nprint(found)"
    )
    assert run(code).stdout == "[True]\n"
