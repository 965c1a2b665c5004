"""``models scale``: the ratios, what is kept and refused, and how far the same rule is off where both are known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.check_api import check_model
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.io.loading import load_model
from prfaas_opt.profiles.accelerators import ACCELERATORS, accelerator_name, least_reading_s
from prfaas_opt.scale_api import Scaling, StatedOverScaled, scale_model

LENGTHS = [1024, 8192, 32768, 131072]
LATENCIES = [0.44, 0.72, 1.84, 7.40]
FIXED = 0.44 - 1024 * (0.72 - 0.44) / (8192 - 1024)
H200_B200 = 1979 / 4500
QUADRATIC = {"quadratic": {"a_s": 0.5, "b_s_per_token": 1e-4, "c_s_per_token2": 2e-10}, "range_tokens": [128, 131072]}


def model(tmp_path: Path, **changes: Any) -> str:
    """A model file of one profile on H200, some fields of the profile changed; None takes a field out."""
    profile: dict[str, Any] = {
        "hardware": "H200",
        "gpus_per_instance": 8,
        "prefill": {"lengths_tokens": LENGTHS, "latency_s": LATENCIES},
        "decode": {"batch": [1, 16], "step_s": [0.010, 0.020]},
        "provenance": {"prefill": "measured, here", "decode": "measured, here"},
    }
    data = {
        "name": "mine",
        "kv_cache": {"lengths_tokens": LENGTHS, "mib": [190.8, 308.9, 701.3, 2316.3]},
        "kv_cache_provenance": "measured, here",
        "profiles": [profile],
    }
    for key, value in changes.items():
        (data if key in {"active_parameters"} else profile)[key] = value
    if "memory" in changes:
        profile["provenance"] |= {"memory": "measured, here"}
    data["profiles"] = [{key: value for key, value in profile.items() if value is not None}]
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(path)


def new_profile(found: Scaling) -> dict[str, Any]:
    (profile,) = yaml.safe_load(found.profile_yaml)["profiles"]
    return dict(profile)


def refused(*arguments: Any, **options: Any) -> dict[str, str]:
    """Code and message of each problem."""
    with pytest.raises(InputError) as error:
        scale_model(*arguments, **options)
    return {f"{problem.where} {problem.code}": f"{problem.message} {problem.fix}" for problem in error.value.problems}


def test_a_table_is_scaled_above_its_fixed_cost(tmp_path: Path) -> None:
    found = scale_model(model(tmp_path), "H200", "B200")
    assert found.number_format == "fp8"
    assert found.compute_ratio == pytest.approx(H200_B200)
    assert found.fixed_s == pytest.approx(FIXED)
    expected = [FIXED + (latency - FIXED) * H200_B200 for latency in LATENCIES]
    assert [row.scaled_s for row in found.prefill] == pytest.approx(expected)
    assert [row.from_s for row in found.prefill] == pytest.approx(LATENCIES)
    prefill = new_profile(found)["prefill"]
    assert prefill["lengths_tokens"] == LENGTHS
    assert prefill["latency_s"] == pytest.approx(expected, rel=1e-5)


def test_a_formula_keeps_its_constant_and_its_range(tmp_path: Path) -> None:
    found = scale_model(model(tmp_path, prefill=QUADRATIC | {"extrapolate_to_tokens": 262144}), "h200", "GB200")
    ratio = 1979 / 5000
    prefill = new_profile(found)["prefill"]
    assert found.fixed_s == 0.5
    assert prefill["quadratic"] == pytest.approx(
        {"a_s": 0.5, "b_s_per_token": 1e-4 * ratio, "c_s_per_token2": 2e-10 * ratio}, rel=1e-5
    )
    assert prefill["range_tokens"] == [128, 131072]
    assert prefill["extrapolate_to_tokens"] == 262144


def test_a_table_keeps_its_interpolation_and_extrapolation(tmp_path: Path) -> None:
    prefill = {"lengths_tokens": LENGTHS, "latency_s": LATENCIES, "interpolation": "linear"}
    found = scale_model(model(tmp_path, prefill=prefill | {"extrapolate_to_tokens": 200000}), "H200", "B200")
    scaled = new_profile(found)["prefill"]
    assert (scaled["interpolation"], scaled["extrapolate_to_tokens"]) == ("linear", 200000)
    assert scaled["lengths_tokens"] == LENGTHS


@pytest.mark.parametrize(
    ("latencies", "fixed"), [([0.5, 0.4, 1.84, 7.4], 0.4), ([0.1, 0.9, 3.6, 14.4], 0.0)], ids=["falls", "through zero"]
)
def test_the_fixed_cost_is_neither_negative_nor_above_any_point(
    tmp_path: Path, latencies: list[float], fixed: float
) -> None:
    found = scale_model(model(tmp_path, prefill={"lengths_tokens": LENGTHS, "latency_s": latencies}), "H200", "B200")
    assert found.fixed_s == pytest.approx(fixed)


def test_decode_goes_by_memory_bandwidth(tmp_path: Path) -> None:
    found = scale_model(model(tmp_path), "H200", "B200")
    assert found.bandwidth_ratio == pytest.approx(0.6)
    assert new_profile(found)["decode"] == {"batch": [1, 16], "step_s": [0.006, 0.012]}
    assert [(step.batch, step.context_tokens) for step in found.decode] == [(1, None), (16, None)]
    assert [step.scaled_s for step in found.decode] == pytest.approx([0.006, 0.012])


@pytest.mark.parametrize(
    "decode",
    [
        {"batch": [1, 16], "context_tokens": [1000, 3000], "step_ms": [[10, 20], [30, 60]], "accepted_tokens": 1.5},
        {
            "fitted": {"base_s": 0.01, "per_request_s": 1e-4, "per_context_token_s": 1e-7},
            "batch_range": [1, 100],
            "context_range_tokens": [1000, 10000],
        },
    ],
    ids=["table", "fitted"],
)
def test_decode_by_context_is_scaled_everywhere(tmp_path: Path, decode: dict[str, Any]) -> None:
    out = tmp_path / "out.yaml"
    scale_model(model(tmp_path, decode=decode), "H200", "B200", output=out)
    both = load_model(str(out))
    old, new = (each.decode for each in both.profiles)
    assert old is not None
    assert new is not None
    assert new.accepted_tokens == old.accepted_tokens
    assert new.contexts_tokens == old.contexts_tokens
    for context in (500, 1700, 3000):
        for batch in (1, 7, 16):
            assert new.at(context).step_s(batch) == pytest.approx(0.6 * old.at(context).step_s(batch), rel=1e-4)


def test_the_model_is_written_with_the_profile_and_its_kv_sizes_unchanged(tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"
    found = scale_model("internal-1t", "H200", "B200", output=out)
    assert found.file == str(out)
    written = load_model(str(out))
    assert written.hardware == ("H200", "H20", "B200")
    shipped = load_model("internal-1t")
    for i, profile in enumerate(shipped.profiles):
        assert written.profiles[i] == profile
    assert written.profiles[2].kv_bytes == shipped.profiles[0].kv_bytes
    assert {written.profiles[2].provenance[figure].kind for figure in ("prefill", "decode")} == {"assumed"}
    source = written.profiles[2].provenance["prefill"].source
    assert source.startswith("H200 (paper, table 5) times 0.44 above a fixed 0.4 s")
    (words,) = re.findall("in back-tests from H200 to B200 the stated was ([0-9.]+) to ([0-9.]+) times", source)
    assert found.prefill_uncertainty is not None
    assert words == tuple(f"{end:.2f}" for end in (found.prefill_uncertainty.least, found.prefill_uncertainty.most))
    assert check_model(str(out)).holds


def test_sizes_of_the_profile_itself_go_with_it(tmp_path: Path) -> None:
    own = {"lengths_tokens": [1024, 131072], "mib": [100, 1000]}
    sources = {"prefill": "measured, here", "decode": "measured, here", "kv_cache": "derived, from layers"}
    profile = new_profile(scale_model(model(tmp_path, kv_cache=own, provenance=sources), "H200", "B200"))
    assert profile["kv_cache"] == own
    assert profile["provenance"]["kv_cache"] == "derived, from layers"


def test_a_file_that_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"
    out.write_text("mine", encoding="utf-8")
    assert f"{out} file-exists" in refused("internal-1t", "H200", "B200", output=out)
    assert out.read_text(encoding="utf-8") == "mine"
    scale_model("internal-1t", "H200", "B200", output=out, force=True)
    assert load_model(str(out)).name == "internal-1t"


def test_memory_goes_by_the_sizes_of_both_and_the_weights_stay(tmp_path: Path) -> None:
    found = scale_model(model(tmp_path, memory={"usable_gb": 1000, "weights_gb": 600}), "H200", "B200")
    memory = new_profile(found)["memory"]
    assert memory == {"usable_bytes": round(1000e9 * 180 / 141), "weights_bytes": 600e9}
    assert not any("no memory is stated" in note for note in found.warnings)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = model(tmp_path, memory={"usable_gb": 1000, "weights_gb": 600})
    message = refused(path, "H200", "H100")["--to too-small"]
    assert "8 x H100 may use 567 GB" in message
    assert "602 GB" in message
    assert "8 x Groq LPU have 1.84 GB" in refused(model(tmp_path), "H200", "Groq LPU")["--to too-small"]
    assert "the weights and" in refused(model(tmp_path, active_parameters=2e12), "H200", "H100")["--to too-small"]
    assert scale_model(model(tmp_path, active_parameters=1e12), "H200", "H100").to_hardware == "H100"


def test_back_tests_are_of_the_pair_that_the_paper_gives() -> None:
    found = scale_model("internal-1t", "H200", "B200")
    tests = [test for test in found.back_tests if test.model == "internal-1t"]
    assert {(test.from_hardware, test.to_hardware, test.figure) for test in tests} == {
        ("H200", "H20", "prefill"),
        ("H20", "H200", "prefill"),
    }
    to_h20 = {test.at: test for test in tests if test.to_hardware == "H20"}
    assert sorted(to_h20) == LENGTHS
    length, ratio = 131072, 1979 / 296
    stated = 0.4691 + 1.3004e-4 * length + 2.94e-10 * length**2
    scaled = FIXED + (7.40 - FIXED) * ratio
    assert to_h20[length].stated_s == pytest.approx(stated)
    assert to_h20[length].scaled_s == pytest.approx(scaled)
    assert to_h20[length].off_by_share == pytest.approx(scaled / stated - 1)


def test_the_range_is_of_the_pair_that_is_scaled_where_a_model_has_both() -> None:
    found = scale_model("internal-1t", "H200", "B200")
    ratios = [
        test.stated_s / test.scaled_s
        for test in found.back_tests
        if (test.figure, test.from_hardware, test.to_hardware) == ("prefill", "H200", "B200")
    ]
    assert found.prefill_uncertainty == StatedOverScaled(min(ratios), max(ratios), "this pair")
    other = scale_model("internal-1t", "H200", "MI300X")
    ratios = [test.stated_s / test.scaled_s for test in other.back_tests if test.figure == "prefill"]
    assert other.prefill_uncertainty == StatedOverScaled(min(ratios), max(ratios), "all pairs")
    assert "in back-tests of other pairs the stated was" in other.provenance["prefill"]


def test_figures_that_are_assumed_test_nothing() -> None:
    assert {test.model for test in scale_model("kimi-linear", "H200", "B200").back_tests}.isdisjoint({"kimi-linear"})


def test_a_model_of_ones_own_is_a_back_test_of_both_figures(tmp_path: Path) -> None:
    """Scaled exactly by the peaks: no error; a decode step twice as long as scaled: off by -50 %."""
    out = tmp_path / "out.yaml"
    scale_model(model(tmp_path), "H200", "H100", output=out)
    data = yaml.safe_load(out.read_text(encoding="utf-8"))
    data["profiles"][1]["provenance"] = {"prefill": "measured, here", "decode": "measured, here"}
    steps = data["profiles"][1]["decode"]["step_s"]
    data["profiles"][1]["decode"]["step_s"] = [step * 2 for step in steps]
    out.write_text(yaml.safe_dump(data), encoding="utf-8")
    found = scale_model(str(out), "H200", "MI300X")
    mine = [test for test in found.back_tests if test.model == "mine" and test.from_hardware == "H200"]
    assert {test.at for test in mine if test.figure == "prefill"} == set(LENGTHS)
    assert all(test.off_by_share == pytest.approx(0, abs=1e-5) for test in mine if test.figure == "prefill")
    assert [test.at for test in mine if test.figure == "decode"] == [1, 16]
    assert all(test.off_by_share == pytest.approx(-0.5, abs=1e-5) for test in mine if test.figure == "decode")
    assert found.decode_uncertainty is not None
    assert found.decode_uncertainty.least <= 0.5001
    assert found.decode_uncertainty.most >= 1.9999


def test_the_range_of_the_back_tests_is_put_on_every_length() -> None:
    found = scale_model("internal-1t", "H200", "B200")
    assert found.prefill_uncertainty is not None
    for row in found.prefill:
        assert row.least_s == pytest.approx(row.scaled_s * found.prefill_uncertainty.least)
        assert row.most_s == pytest.approx(row.scaled_s * found.prefill_uncertainty.most)


def test_the_number_format_may_be_chosen(tmp_path: Path) -> None:
    path = model(tmp_path)
    assert scale_model(path, "H200", "MI355X").compute_ratio == pytest.approx(1979 / 5033.2)
    chosen = scale_model(path, "H200", "MI355X", "fp16")
    assert chosen.compute_ratio == pytest.approx(989.5 / 2516.6)
    assert "not verified: half of fp8" in " ".join(chosen.warnings)
    assert "did you mean fp8?" in refused(path, "H200", "MI355X", "fp4")["--format not-supported"]
    assert "H200 has fp8, fp16, Rubin CPX fp4" in refused(path, "H200", "Rubin CPX")["--to not-supported"]


def test_hardware_for_prefill_alone(tmp_path: Path) -> None:
    path = model(tmp_path, hardware="B200")
    problems = refused(path, "B200", "Rubin CPX")
    assert "--prefill-only" in problems["--to not-supported"]
    found = scale_model(path, "B200", "Rubin CPX", prefill_only=True)
    assert found.compute_ratio == pytest.approx(9000 / 30000)
    assert (found.decode, found.bandwidth_ratio, found.decode_uncertainty) == ((), None, None)
    assert "decode" not in new_profile(found)
    assert any("fp4 rate of Rubin CPX is not verified" in note for note in found.warnings)


def test_a_profile_without_decode(tmp_path: Path) -> None:
    path = model(tmp_path, decode=None, provenance={"prefill": "measured, here"})
    assert "has no decode to scale" in refused(path, "H200", "B200")["--from no-decode"]
    assert scale_model(path, "H200", "B200", prefill_only=True).decode == ()


def test_names_that_cannot_be_scaled_are_refused_all_at_once(tmp_path: Path) -> None:
    path = model(tmp_path)
    problems = refused(path, "A100", "TPU")
    assert set(problems) == {"--from unknown-hardware", "--to unknown-hardware"}
    assert "RUBIN CPX" in problems["--to unknown-hardware"]
    assert "already" in refused("internal-1t", "H200", "h20")["--to duplicate-key"]
    assert "is the accelerator of H200" in refused(path, "H200", "H200-SXM")["--to duplicate-key"]


def test_an_assumed_prefill_is_not_scaled_again() -> None:
    message = refused("kimi-linear", "H20", "B200")["--from not-supported"]
    assert "assumed" in message
    assert "scale from the profile that this one was made from" in message


def test_an_occupancy_is_left_out_with_a_note(tmp_path: Path) -> None:
    prefill = {"lengths_tokens": LENGTHS, "latency_s": LATENCIES, "occupancy_s": [0.2, 0.4, 1.0, 7.0]}
    sources = {"prefill": "measured, x", "decode": "measured, x", "occupancy": "measured, x"}
    found = scale_model(model(tmp_path, prefill=prefill, provenance=sources), "H200", "B200")
    assert "occupancy_s" not in new_profile(found)["prefill"]
    assert any("occupancy is left out" in note for note in found.warnings)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_accelerator_has_a_source_and_plausible_figures(name: str) -> None:
    found = ACCELERATORS[name]
    assert accelerator_name(name.lower().replace(" ", "-")) == name
    assert "https://" in found.source
    assert set(found.unverified) <= {*found.rates_per_s, "memory_bytes", "memory_bytes_per_s"}
    assert all(1e14 < rate < 1e17 for rate in found.rates_per_s.values())
    ordered = [found.rates_per_s[each] for each in ("fp16", "fp8", "fp4") if each in found.rates_per_s]
    assert ordered == sorted(ordered)
    assert found.rates_per_s[found.format] == found.flops_per_s == max(found.rates_per_s.values())
    assert (least_reading_s(8, found, 1e12) > 0) is (found.memory_bytes_per_s is not None)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "scale", *arguments], env={"COLUMNS": "160"})


def test_the_command_prints_ratios_back_tests_and_the_profile() -> None:
    found = run("internal-1t", "--from", "H200", "--to", "B200")
    assert found.exit_code == 0
    assert "Prefill: times 0.44 above a fixed 0.4 s, by peak rates (fp8)." in found.stdout
    assert "Decode: times 0.6, by memory bandwidths. The KVCache stays." in found.stdout
    # The paper's pair at its four lengths, beside the many of estimated profiles.
    assert re.search(r"H200 \(paper\) +H20 \(fitted\) +1 +4 +0\.48 +0\.5\d +0\.90", found.stdout)
    assert re.search(r"H20 \(fitted\) +H200 \(paper\) +1 +4 +0\.90 +1\.3\d +1\.96", found.stdout)
    assert re.search(r"H100 \(derived\) +H200 \(derived\) +12 +96", found.stdout)
    assert "prefill: assumed, H200 (paper, table 5)" in found.stdout
    assert "decode steps on H200 are assumed themselves" in found.stderr


def test_few_back_tests_are_shown_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prfaas_opt.cli.scale._MOST_TESTS", 10_000)
    found = run("internal-1t", "--from", "H200", "--to", "B200")
    assert "+109.2 %" in found.stdout
    assert "-49.0 %" in found.stdout


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"
    found = run("internal-1t", "--from", "H200", "--to", "B200", "--output", str(out))
    assert found.exit_code == 0
    assert f"Written: {out}" in found.stdout
    assert load_model(str(out)).profile("B200") is not None


def test_the_command_as_json_is_as_its_schema_says() -> None:
    found = run("internal-1t", "--from", "H200", "--to", "B200", "--json")
    answer = json.loads(found.stdout)
    jsonschema.validate(answer, schemas.schema("models scale"))
    assert (answer["command"], answer["status"]) == ("models scale", "ok")
    assert answer["data"]["prefill"][3]["scaled_s"] == pytest.approx(FIXED + (7.40 - FIXED) * H200_B200)
    assert set(answer["data"]["sources"]) == {"H200", "B200"}


def test_the_command_refuses_with_exit_4() -> None:
    found = run("internal-1t", "--from", "H200", "--to", "TPU", "--json")
    assert found.exit_code == 4
    assert json.loads(found.stdout)["errors"][0]["where"] == "--to"
