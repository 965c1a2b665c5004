"""The command line on fleets: plans, sizes, errors, interruption and progress, from outside."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from prfaas_opt import schemas
from tests.test_cli import run

INSTANCE = Path(__file__).parents[1] / "scripts/instances/sizing.yaml"
PRICES = [
    *("--set", "clusters.pd-eu.price_per_gpu_hour=1.1"),
    *("--set", "clusters.pd-us.price_per_gpu_hour=1.2"),
]
FLEET_TEXT = """\
name: two sites, two models
traffic:
  - {model: internal-1t, workload: prfaas-case-study, demand_rps: 3}
  - {name: chat-eu, model: kimi-linear, workload: prfaas-case-study, demand_rps: 1, cluster: pd-eu,
     slo: {tokens_per_s: 30}}
clusters:
  us:    {role: prefill, hardware: H200, gpus: 64, price_per_gpu_hour: 2.5}
  pd-eu: {role: pd, hardware: H20, instances: 8}
  pd-us: {role: pd, hardware: H20, gpus: 64}
links:
  - {from: us, to: pd-eu, bandwidth: 100Gbps}
  - {from: us, to: pd-us, bandwidth: 40Gbps}
slo: {tokens_per_s: 40}
"""
SIZED_TEXT = """\
name: what to buy
model: internal-1t
workload: prfaas-case-study
demand_rps: 3
clusters:
  us:    {role: prefill, hardware: H200, gpus: {max: 64}, price_per_gpu_hour: 2.5}
  pd-us: {role: pd, hardware: H20, gpus: {max: 128}, price_per_gpu_hour: 1.2}
links:
  - {from: us, to: pd-us, bandwidth: {min: 0Gbps, max: 40Gbps}, price_per_gbps_hour: 0.4}
slo: {tokens_per_s: 40}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET_TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture
def sized(tmp_path: Path) -> str:
    path = tmp_path / "sized.yaml"
    path.write_text(SIZED_TEXT, encoding="utf-8")
    return str(path)


def finite(text: str) -> Any:
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def data(schema: str, *arguments: str) -> dict[str, Any]:
    """The data of an answer that fits its schema."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    document = finite(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema(schema)).validate(document)
    assert (document["schema_version"], document["command"]) == (1, arguments[0])
    assert document["status"] == document["data"]["status"]
    assert isinstance(document["data"], dict)
    return document["data"]


def check_text(*arguments: str) -> list[str]:
    """The lines of an answer, which fit 80 columns but for the verdict; nothing else is on stdout."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    lines: list[str] = result.stdout.splitlines()
    assert not [line for line in lines[1:] if len(line) > 80]
    assert "note:" not in result.stdout
    assert all(line.startswith(("note: ", "      ")) for line in result.stderr.splitlines())
    for bad in ("inf ", "-inf", "nan", "None", "Traceback"):
        assert bad not in result.stdout
    return lines


def errors(code: int, *arguments: str) -> list[dict[str, str]]:
    """What is wrong, said on stderr to people and on stdout to programs, with one exit code."""
    text, machine = run(*arguments), run(*arguments, "--json")
    assert text.exit_code == machine.exit_code == code, text.output
    assert text.stdout == machine.stderr == ""
    assert "Traceback" not in text.stderr
    document = finite(machine.stdout)
    jsonschema.Draft202012Validator(schemas.schema("error")).validate(document)
    status = "infeasible" if code == 3 else "error"
    assert (document["command"], document["status"]) == (arguments[0], status)
    found: list[dict[str, str]] = document["errors"]
    assert found
    said = "".join(
        f"{status}: {e['where']}{': ' if e['where'] else ''}{e['message']}\n"
        + (f"    fix: {e['fix']}\n" if e["fix"] else "")
        for e in found
    )
    assert text.stderr == said
    assert all(each["message"] for each in found)
    return found


# Answers


def test_the_text_of_a_plan(fleet: str) -> None:
    lines = check_text("plan", fleet)
    assert re.fullmatch(r"2 streams: 7\.29 req/s, [\d.]+ % offloaded, limited by .+", lines[0])
    text = "\n".join(lines)
    for word in ("internal-1t", "chat-eu", "us to pd-eu", "100.0 Gbps", "H200", "decode", "prefill", "128 to 131,072"):
        assert word in text
    assert "Proven optimal" in text
    assert "Cost:" not in text
    assert "USD/h" in "\n".join(check_text("plan", fleet, *PRICES))


def test_the_text_of_a_plan_with_additions(sized: str) -> None:
    """With three lengths only, for it is planned two dozen times."""
    three = (
        "workload={input_tokens: {distribution: table, lengths: [2K, 20K, 90K], weights: [5, 3, 1]}, output_tokens: 1K}"
    )
    given = ["--set", "clusters.us.gpus=32", "--set", "links.0.bandwidth=100Gbps", "--set", three]
    mixed = ["--set", "clusters.pd-us={role: pd, hardware: {H20: {gpus: 56}, H200: {gpus: 8}}}"]
    text = " ".join(" ".join(check_text("plan", sized, *given, *mixed, "--sensitivity", "--mip-gap", "0.02")).split())
    assert "Planned anew with " in text
    assert re.search(r"8 H20 GPUs more \(pd-us\): \+[\d.]+ req/s", text)


def test_the_text_of_a_sizing(sized: str) -> None:
    lines = check_text("size", sized, "--curve", "1,3,50")
    assert re.match(r"\d+ GPUs and [\d.]+ Gbps of links for [\d.]+ USD/h serve 3\.00 req/s, ", lines[0])
    text = "\n".join(lines)
    assert "Proven for this model and these profiles" in text
    assert "Cheapest fleet by demand" in text
    assert "none within the limits" in text
    assert "serves more than" in " ".join(" ".join(check_text("size", sized, "--budget", "80")).split())


def test_the_json_of_a_plan(fleet: str) -> None:
    found = data("plan-fleet", "plan", fleet)
    assert (found["name"], found["status"], found["stopped"], found["cost"]) == ("fleet", "optimal", "", None)
    assert found["throughput_rps"] == pytest.approx(7.29167, rel=1e-4)
    assert found["bound_rps"] >= found["throughput_rps"]
    assert {"stream", "model", "from", "hardware", "to", "pool", "rate_rps"} == set(found["paths"][0])
    assert sum(path["rate_rps"] for path in found["paths"]) == pytest.approx(found["throughput_rps"])
    assert [each["rate_rps"] for each in found["streams"]] == pytest.approx(
        [0.75 * found["throughput_rps"], 0.25 * found["throughput_rps"]]
    )
    assert found["what_ifs"] is None
    assert data("plan-fleet", "plan", fleet, *PRICES)["cost"]["usd_per_hour"] == pytest.approx(64 * (2.5 + 1.1 + 1.2))


def test_the_json_of_a_sizing(sized: str) -> None:
    found = data("size", "size", sized, "--curve", "1,3")
    assert (found["goal"], found["status"], found["demand_rps"]) == ("least-cost", "optimal", 3.0)
    assert found["bound_usd_per_hour"] <= found["usd_per_hour"]
    assert [point["demand_rps"] for point in found["curve"]] == [1.0, 3.0]
    assert found["curve"][1]["usd_per_hour"] == pytest.approx(found["usd_per_hour"], rel=1e-3)
    assert found["plan"]["bound_rps"] is None
    budget = data("size", "size", sized, "--budget", "80")
    assert (budget["goal"], budget["budget_usd_per_hour"], budget["bound_usd_per_hour"]) == ("budget", 80.0, None)
    assert budget["usd_per_hour"] <= 80.0 * (1 + 1e-9)
    assert budget["bound_rps"] >= budget["demand_rps"]


def test_other_figures_by_set_and_options(fleet: str, sized: str) -> None:
    plain = data("plan-fleet", "plan", fleet)
    more = data("plan-fleet", "plan", fleet, "--set", "clusters.pd-us.gpus=128")
    assert more["throughput_rps"] > 1.1 * plain["throughput_rps"]
    assert {each["cluster"]: each["gpus"] for each in more["gpus"]} == {"us": 64, "pd-eu": 64, "pd-us": 128}
    demand = data("size", "size", sized, "--demand", "2")
    by_set = data("size", "size", sized, "--set", "demand_rps=2")
    assert demand == by_set
    assert demand["demand_rps"] == 2.0
    wide = data("size", "size", sized, "--mip-gap", "0.3", "--time-limit", "30")
    assert (wide["mip_gap_share"], wide["status"]) == (0.3, "optimal")


def test_two_pools_stay_two_pools() -> None:
    """What was planned by the scan still is, and the answer says the same as before."""
    assert "routing" in data("plan", "plan")
    with pytest.raises(jsonschema.ValidationError):
        data("plan-fleet", "plan")


def test_another_solver(fleet: str) -> None:
    found = data("plan-fleet", "plan", fleet, "--solver", "SCIPY")
    assert found["throughput_rps"] == pytest.approx(data("plan-fleet", "plan", fleet)["throughput_rps"], rel=1e-4)
    assert data("plan-fleet", "plan", fleet, "--solver", "scipy") == found


@pytest.mark.parametrize("command", ["plan", "size"])
def test_the_same_input_gives_the_same_bytes(command: str, fleet: str, sized: str) -> None:
    files = {"plan": [fleet], "size": [sized, "--curve", "1,2"]}
    outputs = {start(command, *files[command], "--json").communicate() for _ in range(2)}
    assert len(outputs) == 1


# Errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["size"],
        ["size", "{sized}", "--demand", "1", "--budget", "1"],
        ["size", "{sized}", "--demand", "0"],
        ["size", "{sized}", "--demand", "-1"],
        ["size", "{sized}", "--demand", "many"],
        ["size", "{sized}", "--budget", "0"],
        ["size", "{sized}", "--curve", "1,0"],
        ["size", "{sized}", "--curve", "1,many"],
        ["size", "{sized}", "--curve", "1,,2"],
        ["size", "{sized}", "--curve", "1,inf"],
        ["size", "{sized}", "--curve", "nan"],
        ["size", "{sized}", "--mip-gap", "2"],
        ["size", "{sized}", "--time-limit", "-1"],
        ["size", "{sized}", "--policy", "free"],
        ["plan", "{fleet}", "--policy", "threshold"],
        ["plan", "{fleet}", "--curve", "1"],
    ],
)
def test_wrong_usage_ends_with_code_2(arguments: list[str], fleet: str, sized: str) -> None:
    result = run(*(each.format(fleet=fleet, sized=sized) for each in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_plan_needs_numbers_not_ranges(sized: str) -> None:
    found = errors(4, "plan", sized)
    assert [(each["code"], each["where"]) for each in found] == [
        ("range", f"{sized}:6 clusters.us"),
        ("range", f"{sized}:7 clusters.pd-us"),
        ("range", f"{sized}:9 links[0].bandwidth"),
    ]
    assert all("prfaas-opt size" in each["fix"] for each in found)


def test_a_sizing_needs_prices(fleet: str) -> None:
    found = errors(4, "size", fleet)
    assert [(each["code"], each["where"]) for each in found] == [
        ("missing-price", f"{fleet}:8 clusters.pd-eu"),
        ("missing-price", f"{fleet}:9 clusters.pd-us"),
    ]
    assert all("price_per_gpu_hour" in each["fix"] for each in found)


@pytest.mark.parametrize("command", ["plan", "size"])
def test_fleets_have_no_mean_length(command: str, fleet: str, tmp_path: Path) -> None:
    (problem,) = errors(4, command, fleet, "--set", "estimator=mean-length")
    assert (problem["code"], problem["where"]) == ("not-supported", "--set estimator")
    path = tmp_path / "mean.yaml"
    path.write_text(FLEET_TEXT + "estimator: mean-length\n", encoding="utf-8")
    (problem,) = errors(4, command, str(path))
    assert problem["where"] == f"{path}:{len(FLEET_TEXT.splitlines()) + 1} estimator"


def test_two_pools_under_mean_length_are_not_sized(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        SIZED_TEXT.replace("{max: 64}", "64").replace("{max: 128}", "128") + "estimator: mean-length\n", "utf-8"
    )
    (problem,) = errors(4, "size", str(path))
    assert problem["where"] == f"{path}:11 estimator"


def test_a_comparison_is_of_two_pools(fleet: str) -> None:
    (problem,) = errors(4, "compare", fleet)
    assert (problem["code"], problem["where"]) == ("not-two-pools", f"{fleet}:2 traffic")
    assert "prfaas-opt plan" in problem["fix"]


def test_a_demand_that_no_fleet_serves(sized: str) -> None:
    found = errors(3, "size", sized, "--demand", "50")
    assert {each["code"] for each in found} == {"conflict"}
    assert [each["where"] for each in found] == [f"{sized}:7 clusters.pd-us", f"{sized}:4 demand_rps"]
    assert all("50 req/s" in each["message"] for each in found)
    assert re.fullmatch(r"allow [\d,]+ H20 GPUs in pd-us", found[0]["fix"])
    assert re.fullmatch(r"lower it to [\d.]+ req/s", found[1]["fix"])
    gpus = found[0]["fix"].split()[1].replace(",", "")
    rate = found[1]["fix"].split()[3]
    wider = run("size", sized, "--demand", "50", "--set", f"clusters.pd-us.gpus.max={gpus}", "--mip-gap", "0.1")
    assert wider.exit_code == 0, wider.output
    assert run("size", sized, "--demand", rate).exit_code == 0


def test_a_budget_that_serves_nothing(sized: str) -> None:
    (problem,) = errors(3, "size", sized, "--budget", "1")
    assert problem["code"] == "conflict"
    assert "1.00 USD an hour" in problem["message"]
    (usd,) = re.findall(r"allow ([\d.]+) USD an hour", problem["fix"])
    assert run("size", sized, "--budget", usd).exit_code == 0
    errors(3, "size", sized, "--budget", str(0.97 * float(usd)))


def test_an_slo_that_no_batch_meets(fleet: str) -> None:
    (problem,) = errors(3, "plan", fleet, "--set", "slo.tokens_per_s=41")
    assert (problem["code"], problem["where"]) == ("slo", "--set slo.tokens_per_s")


@pytest.mark.parametrize(("command", "name"), [("plan", "GUROBI"), ("size", "no-such"), ("plan", "CLARABEL")])
def test_a_solver_that_is_not_there_or_takes_no_integers(command: str, name: str, fleet: str, sized: str) -> None:
    (problem,) = errors(5, command, fleet if command == "plan" else sized, "--solver", name)
    assert (problem["code"], problem["where"]) == ("no-solver", "--solver")
    assert "HIGHS" in problem["message"]


def test_limits_reach_highs_only(fleet: str) -> None:
    (problem,) = errors(5, "plan", fleet, "--solver", "SCIPY", "--time-limit", "5")
    assert problem["code"] == "not-supported"


def test_a_file_that_is_not_there() -> None:
    for command in ("plan", "size"):
        (problem,) = errors(4, command, "no-such-file.yaml")
        assert "no-such-file.yaml" in problem["where"] + problem["message"]


# Processes


def start(*arguments: str, stderr: int = subprocess.PIPE, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """The program as a shell starts it in the foreground: it hears Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "prfaas_opt", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.mark.parametrize("arguments", [["size", "--help"], ["plan", "--help"], ["plan"], ["schema", "size"]])
def test_nothing_heavy_is_imported_for_help_and_two_pools(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom prfaas_opt.cli import main\n"
        f"sys.argv = ['prfaas-opt', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'cvxpy', 'highspy', 'scipy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_errors_of_input_come_before_the_solver_is_imported(fleet: str) -> None:
    code = (
        "import sys\nfrom prfaas_opt.cli import main\n"
        f"sys.argv = ['prfaas-opt', 'size', {fleet!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 4\n"
        "print(sorted({'cvxpy', 'highspy', 'scipy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def check_interrupted(out: bytes, err: bytes, code: int) -> None:
    """Nothing found yet: it ends as Ctrl-C ends programs, and says nothing that could be taken for an answer."""
    assert code in (130, -signal.SIGINT), (code, out, err)  # a shell says 130 to both
    assert out == b""
    assert b"Traceback" not in err
    assert b"terminate" not in err
    assert b"Exception" not in err


@pytest.mark.parametrize("after_s", [1.5, 2.5])
def test_ctrl_c_before_anything_is_found(after_s: float) -> None:
    process = start("size", str(INSTANCE), "--json")
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0 and after_s > 2:  # a fast machine
        assert finite(out.decode())["data"]["stopped"] == "interrupted"
        return
    check_interrupted(out, err, process.returncode)


class Terminal:
    """A process whose stderr is a terminal; stdout is kept apart."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        self.process = start(*arguments, stderr=theirs, env=environment)
        os.close(theirs)
        self.shown = ""

    def wait_for(self, pattern: str, timeout_s: float) -> bool:
        """Reads what is shown until it matches; whether it did before the end, or the time was over."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and not re.search(pattern, self.shown):
            if not select.select([self._ours], [], [], 0.2)[0]:
                continue
            try:
                self.shown += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
        return re.search(pattern, self.shown) is not None

    def finish(self) -> bytes:
        """Its stdout, once it has ended."""
        assert self.process.stdout is not None
        self.wait_for(r"(?!)", 0.0)
        with self.process.stdout as stdout:
            out = stdout.read()
        self.process.wait(timeout=60)
        self.wait_for(r"(?!)", 1.0)
        os.close(self._ours)
        return out


def test_progress_on_a_terminal_and_ctrl_c_that_takes_the_best_so_far() -> None:
    """The line tells when there is something to take."""
    started = time.monotonic()
    terminal = Terminal("size", str(INSTANCE), "--json", "--time-limit", "300", "--mip-gap", "1e-9")
    assert terminal.wait_for("searching", 60)
    assert time.monotonic() - started > 2.0
    assert terminal.wait_for(r"best [\d,.]+ USD/h, bound [\d,.]+, gap [\d.]+ %", 120), terminal.shown
    terminal.process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    out = terminal.finish()
    assert time.monotonic() - sent < 30
    assert terminal.process.returncode == 0, terminal.shown
    assert "Traceback" not in terminal.shown
    document = finite(out.decode())
    jsonschema.Draft202012Validator(schemas.schema("size")).validate(document)
    found = document["data"]
    assert (document["status"], found["status"]) == ("feasible", "feasible")
    assert found["stopped"] == found["plan"]["stopped"] == "interrupted"
    assert 0 < found["gap_share"] < 1
    assert 0 < found["bound_usd_per_hour"] < found["usd_per_hour"]
    streams = yaml.safe_load(INSTANCE.read_text(encoding="utf-8"))["traffic"]
    assert [each["rate_rps"] for each in found["plan"]["streams"]] == pytest.approx(
        [each["demand_rps"] for each in streams], rel=1e-6
    )
    assert all(each["bands"] and each["kind"] for each in found["plan"]["streams"])
    assert all((group["utilization"] or 0) <= 1 + 1e-4 for group in found["plan"]["groups"])


def test_no_progress_where_stderr_is_no_terminal() -> None:
    process = start("size", str(INSTANCE), "--json", "--time-limit", "8", "--mip-gap", "1e-9")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert all(line.startswith((b"note: ", b"      ")) for line in err.splitlines())
    assert b"\x1b" not in err
    found = finite(out.decode())["data"]
    assert (found["stopped"], found["status"]) == ("time limit", "feasible")
