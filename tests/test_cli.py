"""The command line: every command, its JSON against its schema, its exit codes, its width."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from prfaas_opt import __version__, schemas
from prfaas_opt.cli import app

COMMANDS = {
    "plan": ["plan"],
    "plan mean-length": ["plan", "--estimator", "mean-length"],
    "plan local": ["plan", "--set", "links.0.bandwidth=0"],
    "plan priced": [
        "plan",
        "--set",
        "clusters.prfaas.price_per_gpu_hour=4",
        "--set",
        "clusters.pd.price_per_gpu_hour=2",
    ],
    "compare": ["compare"],
    "compare local": ["compare", "--set", "links.0.bandwidth=0"],
    "kv": ["kv", "--gpus", "512"],
    "reproduce": ["reproduce"],
    "models list": ["models", "list"],
    "models show": ["models", "show", "internal-1t"],
    "workloads list": ["workloads", "list"],
    "workloads show": ["workloads", "show", "prfaas-case-study"],
    "schema": ["schema"],
}
SCHEMA_OF = {name: name.split(" ", maxsplit=1)[0] for name in COMMANDS if name != "schema"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "NO_COLOR": "1"})


def answer(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", COMMANDS)
def test_text_fits_80_columns_and_ends_with_code_0(name: str) -> None:
    result = run(*COMMANDS[name])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines
    too_long = [line for line in lines[1:] if len(line) > 80 and not line.startswith("File: ")]
    assert not too_long


@pytest.mark.parametrize("name", SCHEMA_OF)
def test_json_is_one_object_that_its_schema_describes(name: str) -> None:
    document = answer(*COMMANDS[name])
    assert document["schema_version"] == 1
    assert document["command"] == SCHEMA_OF[name]
    jsonschema.Draft202012Validator(schemas.schema(SCHEMA_OF[name])).validate(document)


@pytest.mark.parametrize("name", schemas.descriptions())
def test_schemas_are_schemas(name: str) -> None:
    result = run("schema", name)
    jsonschema.Draft202012Validator.check_schema(json.loads(result.stdout))


def test_the_built_in_scenario_and_the_shipped_files_meet_their_schemas() -> None:
    import yaml

    from prfaas_opt.io.catalog import shipped_folder
    from prfaas_opt.io.scenario_file import CASE_STUDY

    files = {
        "scenario": [CASE_STUDY],
        "model": sorted(shipped_folder("models").glob("*.yaml")),
        "workload": sorted(shipped_folder("workloads").glob("*.yaml")),
    }
    for kind, paths in files.items():
        validator = jsonschema.Draft202012Validator(schemas.schema(kind))
        assert paths
        for path in paths:
            validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_the_first_line_of_a_plan_is_the_verdict() -> None:
    first = run("plan").stdout.splitlines()[0]
    assert first == (
        "Offload requests longer than 19K tokens (48.7 %): capacity 3.15 req/s, 1.56x the homogeneous cluster, "
        "limited by prefill in both clusters"
    )
    assert "3.16 req/s" in run("plan").stdout.splitlines()[1]


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        ("links.0.bandwidth=0", "Offload nothing"),
        ("clusters.pd.instances=1", "Offload every request"),
        ("links.0.bandwidth=5Gbps", "and the link"),
        ("model=minimax-m2.5", "limited by decode"),
    ],
)
def test_the_verdict_says_what_limits(setting: str, verdict: str) -> None:
    assert verdict in run("plan", "--set", setting).stdout.splitlines()[0]


def test_plan_json_holds_the_contract() -> None:
    document = answer("plan")
    data = document["data"]
    assert document["status"] == data["status"] == "optimal"
    assert data["routing"] == {
        "kind": "threshold",
        "bands": [
            {"from_tokens": 128, "to_tokens": 19805, "pool": "pd_prefill"},
            {"from_tokens": 19806, "to_tokens": 131072, "pool": "prfaas"},
        ],
    }
    assert data["instances"] == {"prfaas": 4, "pd_prefill": 3, "pd_decode": 5}
    assert set(data["throughput_rps_by_estimator"]) == {"mean-length", "expected-time"}
    assert set(data["paths"][0]) == {"model", "from", "to", "pool", "rate_rps"}
    assert sum(path["rate_rps"] for path in data["paths"]) == pytest.approx(data["throughput_rps"])
    assert data["near_optimal_threshold_tokens"] == [19334, 19951]


def test_a_role_that_the_deployment_lacks_is_null() -> None:
    homogeneous = answer("compare")["data"]["deployments"][1]
    assert homogeneous["name"] == "homogeneous-pd"
    assert homogeneous["stages_rps"]["prfaas"] is homogeneous["utilization"]["egress"] is None
    assert homogeneous["threshold_tokens"] is homogeneous["near_optimal_threshold_tokens"] is None


def test_mean_length_has_no_proof() -> None:
    data = answer("plan", "--estimator", "mean-length")["data"]
    assert data["status"] == "threshold-optimal"
    assert data["bound_rps"] is data["gap_share"] is data["tie_loss_share"] is data["shadow_prices"] is None


def test_kv_prints_equation_2_as_the_paper_does() -> None:
    clusters = answer("kv", "--gpus", "512", "--length", "32K")["data"]["clusters"]
    egress = {row["model"]: row["egress_gbps"] for row in clusters}
    assert f"{egress['minimax-m2.5'] / 1000:.2g}" == "3.8"
    assert f"{egress['qwen3-235b'] / 1000:.2g}" == "2.1"
    assert float(f"{egress['ring-2.5-1t']:.2g}") == 170
    (ring,) = answer("kv", "--gpus", "512", "--length", "128K", "--model", "ring-2.5-1t")["data"]["clusters"]
    assert ring["egress_gbps"] < 100
    (ring,) = answer("kv", "--gpus", "10000", "--length", "128K", "--model", "ring-2.5-1t")["data"]["clusters"]
    assert f"{ring['egress_gbps'] / 1000:.2g}" == "1.8"


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["plan", "--set", "slo.tokens_per_s=41"], 3, "infeasible"),
        (["plan", "--set", "clusters.pd.instances=0"], 4, "error"),
        (["plan", "--set", "slo.ttft={p90: 4}"], 4, "error"),
        (["plan", "--set", "slo.ttft={p90: 100ms}"], 3, "infeasible"),
        (["plan", "--objective", "goodput"], 4, "error"),
        (["plan", "--objective", "cost"], 4, "error"),
        (["plan", "no-such-file.yaml"], 4, "error"),
        (["plan", "--set", "clusters.pd.instances"], 4, "error"),
        (["compare", "--set", "model=internal-2t"], 4, "error"),
        (["kv", "--length", "19.4K"], 4, "error"),
        (["kv", "--length", "256K"], 4, "error"),
        (["kv", "--hardware", "B300", "--model", "ring-2.5-1t"], 4, "error"),
        (["kv", "--hardware", "B300"], 4, "error"),
        (["models", "show", "kimi"], 4, "error"),
        (["workloads", "show", "nothing"], 4, "error"),
        (["schema", "plans"], 4, "error"),
    ],
)
def test_errors_end_with_their_code_in_both_forms(arguments: list[str], code: int, status: str) -> None:
    text = run(*arguments)
    assert text.exit_code == code
    assert text.stdout == ""
    assert "Traceback" not in text.stderr
    assert text.stderr.startswith(("error: ", "infeasible: "))
    machine = run(*arguments, "--json")
    assert machine.exit_code == code
    document = json.loads(machine.stdout)
    jsonschema.Draft202012Validator(schemas.schema("error")).validate(document)
    assert (document["status"], document["command"]) == (status, arguments[0])
    assert all(problem["message"] and problem["code"] for problem in document["errors"])


def test_wrong_usage_ends_with_code_2() -> None:
    assert run("plan", "--no-such-option").exit_code == 2
    assert run("plan", "--estimator", "median").exit_code == 2
    assert run("no-such-command").exit_code == 2
    assert run("plan", "--time-limit", "5").exit_code == 2
    assert run("plan", "--mip-gap", "0.1").exit_code == 2


def test_a_bug_of_ours_ends_with_code_1_and_asks_for_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr("prfaas_opt.api.plan", broken)
    result = run("plan")
    assert result.exit_code == 1
    assert "out of cheese" in result.stderr
    assert "PRFAAS_OPT_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    machine = run("plan", "--json")
    assert machine.exit_code == 1
    (problem,) = json.loads(machine.stdout)["errors"]
    assert problem["code"] == "internal"


def test_a_claim_that_the_equations_refute_ends_with_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from prfaas_opt.planning.problem import TwoPoolProblem

    honest = TwoPoolProblem.usable_prefill
    monkeypatch.setattr(
        "prfaas_opt.planning.evaluate.pd_prefill_throughput", lambda instances, prefill_s: 0.9 * instances / prefill_s
    )
    assert TwoPoolProblem.usable_prefill is honest
    result = run("plan")
    assert result.exit_code == 1
    assert "the solver claims" in result.stderr


def test_a_figure_that_differs_ends_reproduce_with_code_6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prfaas_opt.reproduction.paper.THRESHOLD_TOKENS", 25000)
    result = run("reproduce")
    assert result.exit_code == 6
    assert "DIFFERS" in result.stdout


def test_init_writes_the_case_study_and_never_overwrites(tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    assert run("init", str(target)).exit_code == 0
    assert answer("plan", str(target))["data"] == answer("plan")["data"]
    target.write_text("mine", encoding="utf-8")
    refused = run("init", str(target))
    assert refused.exit_code == 4
    assert "is there already" in refused.stderr
    assert target.read_text(encoding="utf-8") == "mine"
    assert run("init", str(target), "--force").exit_code == 0
    assert run("init", str(tmp_path / "no" / "folder.yaml")).exit_code == 4
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_folder_of_models_beside_the_scenario_comes_first(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    shipped = Path(answer("models", "show", "internal-1t")["data"]["models"][0]["file"])
    slower = shipped.read_text(encoding="utf-8").replace("0.44, 0.72, 1.84, 7.40", "0.88, 1.44, 3.68, 14.80")
    (tmp_path / "models" / "internal-1t.yaml").write_text(slower, encoding="utf-8")
    scenario = tmp_path / "scenario.yaml"
    run("init", str(scenario))
    assert answer("plan", str(scenario))["data"]["throughput_rps"] < 3.0
    assert answer("plan")["data"]["throughput_rps"] > 3.0


def test_the_same_input_gives_the_same_bytes() -> None:
    command = [sys.executable, "-m", "prfaas_opt", "compare", "--json"]
    outputs = {subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2)}
    assert len(outputs) == 1


@pytest.mark.parametrize("arguments", [["plan", "--json"], ["--help"], ["plan", "--help"]])
def test_a_command_imports_only_what_it_needs(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom prfaas_opt.cli import main\n"
        f"sys.argv = ['prfaas-opt', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'scipy', 'cvxpy', 'rich', 'pydantic', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_version_and_help() -> None:
    assert run("--version").stdout == f"prfaas-opt {__version__}\n"
    listing = run("--help").stdout
    for name in ("plan", "compare", "kv", "models", "workloads", "schema", "init", "reproduce"):
        assert f"  {name} " in listing
        assert "Example: prfaas-opt" in run(name, "--help").stdout or name in ("models", "workloads")


def test_a_wide_gap_is_allowed_to_the_solver_that_was_asked_for_it() -> None:
    result = run("plan", "--set", "links.0.bandwidth=2Gbps", "--solver", "cvxpy", "--mip-gap", "0.05")
    assert result.exit_code == 0, result.output


def test_a_large_loss_at_one_length_is_not_called_proven() -> None:
    lengths = "{distribution: table, lengths: [300, 2000, 9000, 20000, 33000, 70000], weights: [4, 2, 6, 2, 4, 1]}"
    workload = f"workload={{input_tokens: {lengths}, output_tokens: 1K}}"
    text = run("plan", "--set", workload, "--set", "links.0.bandwidth=3Gbps").stdout
    assert "Proven optimal" not in text
    assert "could gain at" in text


@pytest.mark.parametrize(
    "arguments", [["plan", "--set", "estimator=\u00e9", "--json"], ["plan", "--set", "model=\u00e9"]]
)
def test_no_locale_makes_it_stumble(arguments: list[str]) -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-m", "prfaas_opt", *arguments], capture_output=True, env=environment)
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr
    if "--json" in arguments:
        assert json.loads(done.stdout)["errors"]


def test_a_reader_that_leaves_ends_it_as_it_ends_other_programs() -> None:
    command = f"{sys.executable} -m prfaas_opt reproduce | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True)
    assert done.returncode in (0, 141)
    assert done.stderr == b""
