"""The wheel, in a clean environment, from another folder."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_installs_alone_and_plans_from_any_folder(tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            f"--wheel-dir={tmp_path}",
            ROOT,
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "prfaas_opt/data/models/internal-1t.yaml" in names
    assert "prfaas_opt/data/workloads/prfaas-case-study.yaml" in names
    assert not [name for name in names if name.startswith(("tests", "scripts"))]
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [str(environment / "bin" / "prfaas-opt"), "plan", "--json"]
    done = subprocess.run(
        command, cwd=elsewhere, check=True, capture_output=True, text=True, env={"HOME": str(elsewhere)}
    )
    assert json.loads(done.stdout)["data"]["threshold_tokens"] == 19805
