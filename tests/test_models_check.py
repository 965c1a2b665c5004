"""``models check``: each check passes where it should, fails where it should, and says what it did not check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import scipy.optimize
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.check_api import ModelCheck, check_model
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.fitting.plausibility import above_convex, below, falls
from prfaas_opt.io.catalog import entries
from prfaas_opt.io.loading import load_model
from prfaas_opt.profiles.accelerators import ACCELERATORS, accelerator, least_prefill_s, least_reading_s
from prfaas_opt.profiles.curve import Piece, linear, log_log, piecewise_curve, table_curve

LENGTHS = [1024, 8192, 32768, 131072]
PROFILE_KEYS = {"hardware", "gpus_per_instance", "prefill", "prefill_cached", "decode", "provenance", "own_kv_cache"}
LATENCIES = [0.44, 0.72, 1.84, 7.40]
LAYERS = {
    "layers": [{"attention": "mla", "count": 7, "kv_lora_rank": 512, "qk_rope_head_dim": 64}],
    "element_bytes": {"kv": 2},
    "max_tokens": 131072,
}


def model(tmp_path: Path, latencies: list[float] | None = None, **changes: Any) -> str:
    """A model file of one profile, some fields of it or of the model changed; None takes a field out."""
    profile = {
        "hardware": "H200",
        "gpus_per_instance": 8,
        "prefill": {"lengths_tokens": LENGTHS, "latency_s": latencies or LATENCIES},
        "provenance": {"prefill": "measured, here"},
    }
    data: dict[str, Any] = {
        "name": "mine",
        "kv_cache": {"lengths_tokens": LENGTHS, "mib": [190.8, 308.9, 701.3, 2316.3]},
        "kv_cache_provenance": "measured, here",
        "profiles": [profile],
    }
    for key, value in changes.items():
        where = profile if key in PROFILE_KEYS else data
        where[key.removeprefix("own_")] = value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(path)


def statuses(found: ModelCheck) -> dict[str, str]:
    return {row.check: row.status for row in found.checks}


def failed(found: ModelCheck) -> list[tuple[str, float, str]]:
    return [(finding.check, finding.length_tokens, finding.relation) for finding in found.findings]


# Sparse attention selects from 2,048 tokens on: below, the latency is another curve, and 4K is above what is convex.
KINKED = {"glm-5": {("latency is convex", 4096.0, "at most")}}


@pytest.mark.parametrize("name", KINKED)
def test_what_does_not_hold_of_shipped_models_is_known(name: str) -> None:
    assert set(failed(check_model(name))) == KINKED[name]


@pytest.mark.parametrize("name", sorted(set(entries("models")) - set(KINKED)))
def test_shipped_models_hold(name: str) -> None:
    found = check_model(name)
    assert found.holds
    assert {row.hardware for row in found.checks} == set(load_model(name).hardware)
    assert statuses(found)["latency rises"] == statuses(found)["latency is convex"] == "holds"


def test_a_good_model_holds_and_says_what_was_not_checked(tmp_path: Path) -> None:
    found = check_model(model(tmp_path))
    assert statuses(found) == {
        "latency rises": "holds",
        "latency is convex": "holds",
        "occupancy within latency": "not checked",
        "KVCache grows": "holds",
        "KVCache fits the layers": "not checked",
        "within the hardware's peak": "not checked",
    }
    why = {row.check: row.why for row in found.checks}
    assert why["within the hardware's peak"] == "the model file states no active_parameters"
    assert why["KVCache fits the layers"] == "the model file states no layers"


def test_a_latency_that_falls_beyond_the_noise(tmp_path: Path) -> None:
    path = model(tmp_path, [0.80, 0.70, 1.84, 7.40])
    found = check_model(path)
    assert failed(found) == [("latency rises", 8192, "at least")]
    (finding,) = found.findings
    assert (finding.found, finding.unit) == (0.70, "s")
    assert finding.expected == pytest.approx(0.80 * 0.95 / 1.05)
    assert check_model(path, 0.10).holds
    assert any("falls" in warning for warning in found.warnings)


def test_a_slow_fall_over_several_points_is_a_fall() -> None:
    curve = table_curve([1, 2, 3, 4, 5], [1.0, 0.97, 0.94, 0.91, 0.88], linear)
    assert [miss.length_tokens for miss in falls(curve, 0.05)] == [5]


def test_a_fall_inside_a_formula_is_found() -> None:
    curve = piecewise_curve((Piece(1.0, 11.0, ((26.0, 0.0), (-10.0, 1.0), (1.0, 2.0))),), "latency")
    (miss,) = falls(curve, 0.01)
    assert miss.length_tokens == pytest.approx(5.0)
    assert miss.found == pytest.approx(1.0)


def test_a_bump_is_not_convex(tmp_path: Path) -> None:
    found = check_model(model(tmp_path, [0.44, 0.72, 2.6, 7.40]))
    assert failed(found) == [("latency is convex", 32768, "at most")]
    (finding,) = found.findings
    chord = 0.72 + (7.40 - 0.72) * (32768 - 8192) / (131072 - 8192)
    assert finding.found == pytest.approx(2.6)
    assert finding.expected == pytest.approx(chord * 1.05 / 0.95)
    assert check_model(model(tmp_path, [0.44, 0.72, chord * 1.09, 7.40])).holds


@settings(max_examples=60)
@given(st.lists(st.floats(0.2, 5.0), min_size=3, max_size=7), st.floats(0.0, 0.3))
def test_convex_within_noise_is_what_a_linear_program_finds(values: list[float], noise: float) -> None:
    """Some convex sequence within the noise of all values exists exactly where no point is found."""
    lengths = [float(2**i) for i in range(len(values))]
    n, slack = len(values), np.zeros(len(values) + 1)
    slack[-1] = 1.0
    rows, limits = [], []
    for i, value in enumerate(values):
        unit = np.eye(n + 1)[i]
        rows += [unit - slack, -unit - slack]
        limits += [value * (1 + noise), -value * (1 - noise)]
    for i in range(1, n - 1):
        left = 1 / (lengths[i] - lengths[i - 1])
        right = 1 / (lengths[i + 1] - lengths[i])
        row = np.zeros(n + 1)
        row[i - 1 : i + 2] = -left, left + right, -right
        rows.append(row)
        limits.append(0.0)
    solved = scipy.optimize.linprog(slack, np.array(rows), limits, bounds=[(0, None)] * (n + 1))
    least = float(solved.fun or 0.0)
    misses = above_convex(list(zip(lengths, values, strict=True)), noise)
    if least > 1e-6:
        assert misses
    elif least < 1e-12 and misses:
        assert max(miss.found / miss.limit for miss in misses) < 1 + 1e-6


def test_occupancy_is_checked_where_it_is_stated(tmp_path: Path) -> None:
    prefill = {"lengths_tokens": LENGTHS, "latency_s": LATENCIES, "occupancy_s": [0.4, 0.7, 1.8, 7.4]}
    provenance = {"prefill": "measured, here", "occupancy": "measured, here"}
    found = check_model(model(tmp_path, prefill=prefill, provenance=provenance))
    assert statuses(found)["occupancy within latency"] == "holds"


def test_a_curve_below_another_only_between_the_points_is_found() -> None:
    """Points joined in log-log space run below those joined straight, and meet them at the points."""
    lower, upper = (table_curve([1000, 9000], [1.0, 20.0], join) for join in (log_log, linear))
    (miss,) = below(lower, upper)
    assert 1000 < miss.length_tokens < 9000
    assert miss.found < miss.limit * 0.9
    assert below(upper, lower) == []


def test_sizes_against_the_layers(tmp_path: Path) -> None:
    sizes = [8064.0 * length / 2**20 for length in LENGTHS]
    own = {"lengths_tokens": LENGTHS, "mib": sizes}
    provenance = {"prefill": "measured, here", "kv_cache": "measured, here"}
    path = model(tmp_path, kv_cache=LAYERS, own_kv_cache=own, provenance=provenance)
    assert statuses(check_model(path))["KVCache fits the layers"] == "holds"
    halved = own | {"mib": [size * 0.5 for size in sizes]}
    found = check_model(model(tmp_path, kv_cache=LAYERS, own_kv_cache=halved, provenance=provenance))
    assert failed(found) == [("KVCache fits the layers", float(length), "about") for length in LENGTHS]
    assert [f.expected for f in found.findings] == pytest.approx([8064.0 * length for length in LENGTHS])
    assert [f.found for f in found.findings] == pytest.approx([4032.0 * length for length in LENGTHS])
    assert {f.unit for f in found.findings} == {"bytes"}
    only = check_model(model(tmp_path, kv_cache=LAYERS))
    assert {row.check: row.why for row in only.checks}["KVCache fits the layers"] == "the sizes follow from the layers"


def test_no_prefill_is_faster_than_the_peak(tmp_path: Path) -> None:
    floor = 2 * 32e9 * 131072 / (8 * 1979e12)
    assert least_prefill_s(8, ACCELERATORS["H200"], 32e9, 131072) == pytest.approx(floor)
    good = check_model(model(tmp_path, active_parameters=32e9))
    assert statuses(good)["within the hardware's peak"] == "holds"
    assert good.checks[-1].why == "8 x H200, dense fp8"
    fast = check_model(model(tmp_path, [0.02, 0.034, 0.12, floor * 0.99], active_parameters=32e9))
    assert failed(fast) == [
        ("within the hardware's peak", 32768, "at least"),
        ("within the hardware's peak", 131072, "at least"),
    ]
    assert fast.findings[-1].expected == pytest.approx(floor)
    assert check_model(model(tmp_path, [0.02, 0.034, floor / 4 * 1.001, floor * 1.001], active_parameters=32e9)).holds
    same: dict[str, Any] = {"latencies": [0.02, 0.022, 0.05, 0.2], "active_parameters": 32e9}
    assert not check_model(model(tmp_path, **same)).holds
    assert check_model(model(tmp_path, **same, hardware="B200")).holds
    assert check_model(model(tmp_path, **same, gpus_per_instance=64)).holds


def test_milliseconds_taken_for_seconds_are_found(tmp_path: Path) -> None:
    table = {"lengths_tokens": LENGTHS, "latency_ms": LATENCIES}
    found = check_model(model(tmp_path, prefill=table, active_parameters=32e9))
    assert {check for check, *_ in failed(found)} == {"within the hardware's peak"}
    assert len(found.findings) == 4


def test_a_short_prompt_reads_the_weights_at_least(tmp_path: Path) -> None:
    least = 0.5 * 1e12 / (8 * 4.8e12)
    assert least_reading_s(8, ACCELERATORS["H200"], 1e12) == pytest.approx(least)
    prefill = {"lengths_tokens": [1, 131072], "latency_s": [least * 0.9, 20.0]}
    found = check_model(model(tmp_path, prefill=prefill, active_parameters=1e12))
    assert failed(found) == [("within the hardware's peak", 1, "at least")]
    assert found.findings[0].expected == pytest.approx(least)


def test_no_decode_step_is_faster_than_the_peak(tmp_path: Path) -> None:
    reading, computing = 0.5 * 32e9 / (8 * 4.8e12), 2 * 32e9 * 512 / (8 * 1979e12)
    assert computing > reading
    provenance = {"prefill": "measured, here", "decode": "measured, here"}

    def steps(first_s: float, last_s: float) -> ModelCheck:
        decode = {"batch": [1, 512], "step_s": [first_s, last_s]}
        return check_model(model(tmp_path, decode=decode, provenance=provenance, active_parameters=32e9))

    good = steps(reading * 1.001, computing * 1.001)
    assert (good.holds, good.checks[-1].check) == (True, "decode within the peak")
    slow_unit = steps(reading * 0.99, computing * 0.99)
    assert [(f.check, f.batch, f.relation) for f in slow_unit.findings] == [
        ("decode within the peak", 1, "at least"),
        ("decode within the peak", 512, "at least"),
    ]
    assert [f.expected for f in slow_unit.findings] == pytest.approx([reading, computing])
    assert slow_unit.checks[-1].why == "at batch 1, 512"
    table = {"batch": [1, 8], "context_tokens": [1000, 9000], "step_s": [[0.01, 0.02], [0.02, reading / 2]]}
    by_context = check_model(model(tmp_path, decode=table, provenance=provenance, active_parameters=32e9))
    assert [(f.batch, f.length_tokens) for f in by_context.findings] == [(8, 9000.0)]
    unknown = check_model(model(tmp_path, decode=table, provenance=provenance))
    assert statuses(unknown)["decode within the peak"] == "not checked"


def test_an_occupancy_faster_than_the_peak(tmp_path: Path) -> None:
    prefill = {"lengths_tokens": LENGTHS, "latency_s": LATENCIES, "occupancy_s": [0.4, 0.7, 0.8, 0.9]}
    provenance = {"prefill": "measured, here", "occupancy": "measured, here"}
    path = model(tmp_path, prefill=prefill, provenance=provenance, active_parameters=100e9)
    assert failed(check_model(path)) == [("within the hardware's peak", 131072, "at least")]


def test_a_formula_faster_than_the_peak_only_between_its_ends(tmp_path: Path) -> None:
    """``a + b*l + c*l^2`` over ``k*l`` is least at ``sqrt(a / c)``."""
    k = 2 * 32e9 / (8 * 1979e12)
    quadratic = {"a_s": 0.05 * k * 16384, "b_s_per_token": 0.8 * k, "c_s_per_token2": 0.05 * k / 16384}
    prefill = {"quadratic": quadratic, "range_tokens": [1024, 131072]}
    ends = [sum(c * x**i for i, c in enumerate(quadratic.values())) / (k * x) for x in (1024, 131072)]
    assert min(ends) > 1
    found = check_model(model(tmp_path, prefill=prefill, active_parameters=32e9))
    ((check, length, relation),) = failed(found)
    assert (check, relation) == ("within the hardware's peak", "at least")
    assert length == pytest.approx(16384, rel=0.1)
    assert found.findings[0].found / found.findings[0].expected == pytest.approx(0.9, rel=0.01)


def test_hardware_without_a_known_peak_is_not_checked(tmp_path: Path) -> None:
    found = check_model(model(tmp_path, hardware="GH200", active_parameters=32e9))
    assert found.checks[-1].status == "not checked"
    assert "the peak of GH200 is not known" in found.checks[-1].why


@pytest.mark.parametrize(
    ("name", "known"),
    [("H200", "H200"), ("h20", "H20"), ("NVIDIA H100-SXM", "H100"), ("h200_sxm", "H200"), ("H800", None), ("", None)],
)
def test_names_of_accelerators(name: str, known: str | None) -> None:
    assert accelerator(name) is (ACCELERATORS[known] if known else None)


def test_peaks_stand_as_the_data_sheets_have_them() -> None:
    peaks = {name: (a.flops_per_s / 1e12, (a.memory_bytes_per_s or 0) / 1e12) for name, a in ACCELERATORS.items()}
    assert peaks == {
        "H20": (296, 4.0),
        "H100": (1979, 3.35),
        "H200": (1979, 4.8),
        "B200": (9000, 8.0),
        "GB200": (10000, 8.0),
        "MI300X": (2614.9, 5.3),
        "MI355X": (10066.3, 8.0),
        "RUBIN CPX": (30000, 0),
        "GROQ LPU": (750, 80.0),
    }


@pytest.mark.parametrize("active", ["32B", -1, 32, float("nan"), 1e20])
def test_active_parameters_that_are_none(active: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="active_parameters"):
        check_model(model(tmp_path, active_parameters=active))


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "check", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_exit_codes(tmp_path: Path) -> None:
    assert run("internal-1t").exit_code == 0
    assert run(model(tmp_path, [0.8, 0.7, 1.84, 7.40])).exit_code == 6
    assert run(model(tmp_path, [0.8, 0.7, 1.84, 7.40]), "--noise", "0.2").exit_code == 0
    assert run("internal-2t").exit_code == 4
    assert run("internal-1t", "--noise", "5").exit_code == 4
    assert run().exit_code == 2
    (tmp_path / "mine.yaml").write_text("profiles: []\n", encoding="utf-8")
    assert run(str(tmp_path / "mine.yaml")).exit_code == 4


def test_a_finding_says_point_found_and_expected(tmp_path: Path) -> None:
    result = run(model(tmp_path, [0.8, 0.7, 1.84, 7.40]))
    text = " ".join(result.stdout.split())
    assert "mine: 1 failed, 2 passed, 3 not checked" in text
    assert "H200 at 8,192 tokens: found 0.7 s, expected at least 0.7238 s (latency rises)" in text
    assert "fix: measure this length" in text
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


@pytest.mark.parametrize("latencies", [LATENCIES, [0.8, 0.7, 1.84, 7.40]])
def test_json_is_one_object_that_its_schema_describes(latencies: list[float], tmp_path: Path) -> None:
    result = run(model(tmp_path, latencies, active_parameters=32e9), "--json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("models check")).validate(document)
    good = latencies == LATENCIES
    assert (document["command"], document["status"]) == ("models check", "ok" if good else "failed")
    assert len(document["data"]["findings"]) == (0 if good else 1)
    assert result.exit_code == (0 if good else 6)


# Prompts with a cached prefix

CACHED = {
    "cached_tokens": [8192, 24576],
    "uncached_tokens": [1024, 8192, 24576],
    "latency_s": [[0.45, 0.9, 1.6], [0.60, 1.1, 2.0]],
}
CACHED_SOURCES = {"prefill": "measured, here", "prefill_cached": "measured, here"}


def with_prefixes(tmp_path: Path, *rows: list[float], noise: float = 0.05) -> ModelCheck:
    table = CACHED | ({"latency_s": list(rows)} if rows else {})
    return check_model(model(tmp_path, prefill_cached=table, provenance=CACHED_SOURCES), noise)


def cached_failed(found: ModelCheck) -> list[tuple[str, float, float]]:
    return [(finding.check, finding.cached_tokens, finding.length_tokens) for finding in found.findings]


def test_good_prefixes_hold(tmp_path: Path) -> None:
    found = statuses(with_prefixes(tmp_path))
    assert found["cached prefix saves time"] == found["cached prefix is attended to"] == "holds"
    assert "cached prefix saves time" not in statuses(check_model(model(tmp_path)))


def test_a_cached_prefix_is_never_dearer_than_a_whole_prompt(tmp_path: Path) -> None:
    # T(32K) = 1.84 s: 8K cached of 32K may take 1.84 * 1.05 / 0.95 = 2.0337 s.
    found = with_prefixes(tmp_path, [0.45, 0.9, 2.04], [0.60, 1.1, 2.0])
    assert cached_failed(found) == [("cached prefix saves time", 8192, 32768)]
    assert found.findings[0].expected == pytest.approx(1.84 * 1.05 / 0.95)
    assert with_prefixes(tmp_path, [0.45, 0.9, 2.03], [0.60, 1.1, 2.0]).holds
    assert with_prefixes(tmp_path, [0.45, 0.9, 2.04], [0.60, 1.1, 2.0], noise=0.06).holds


def test_more_of_a_prompt_cached_is_never_dearer(tmp_path: Path) -> None:
    # 24K + 8K is 32K with 8K cached and 24K not: 1.6 s with the smaller prefix.
    found = with_prefixes(tmp_path, [0.45, 0.9, 1.6], [0.60, 1.78, 2.0])
    assert cached_failed(found) == [("cached prefix saves time", 24576, 32768)]
    assert found.findings[0].expected == pytest.approx(1.6 * 1.05 / 0.95)


def test_attention_over_the_prefix_is_paid_for(tmp_path: Path) -> None:
    # T(8K) = 0.72 s of uncached tokens alone.
    found = with_prefixes(tmp_path, [0.45, 0.65, 1.6], [0.60, 1.1, 2.0])
    assert cached_failed(found) == [("cached prefix is attended to", 8192, 16384)]
    (finding,) = found.findings
    assert finding.relation == "at least"
    assert finding.expected == pytest.approx(0.72 * 0.95 / 1.05)
    path = model(
        tmp_path, prefill_cached=CACHED | {"latency_s": [[0.45, 0.65, 1.6], [0.6, 1.1, 2.0]]}, provenance=CACHED_SOURCES
    )
    text = " ".join(run(path).stdout.split())
    assert "H200 at 16,384 tokens, 8,192 of them cached: found 0.65 s, expected at least 0.6514 s" in text
