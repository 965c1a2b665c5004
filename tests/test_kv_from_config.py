"""``models check --kv-from``: sizes that follow from a config hold, others are named with what would explain them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.check_api import ModelCheck, check_model
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from tests.configs import CONFIGS, FIGURES, Figures

LENGTHS = [1024, 8192, 32768, 131072]
CHECK = "KVCache fits the config"


def config_file(tmp_path: Path, name: str) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    return str(path)


def size(figures: Figures, length: int, kv: float = 1.0, states: float = 1.0) -> float:
    """Bytes by the published dimensions; windows are full at every length (but those of 4,096 tokens)."""
    return kv * (figures.growing * length + figures.windows) + states * (figures.state + figures.convolution)


def model_file(tmp_path: Path, sizes: list[float]) -> str:
    data = {
        "name": "mine",
        "kv_cache": {"lengths_tokens": LENGTHS, "bytes": sizes},
        "kv_cache_provenance": "measured, here",
        "profiles": [
            {
                "hardware": "H200",
                "gpus_per_instance": 8,
                "prefill": {"lengths_tokens": LENGTHS, "latency_s": [0.44, 0.72, 1.84, 7.40]},
                "provenance": {"prefill": "measured, here"},
            }
        ],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(path)


def checked(tmp_path: Path, name: str, sizes: list[float], **options: Any) -> ModelCheck:
    return check_model(model_file(tmp_path, sizes), kv_from=config_file(tmp_path, name), **options)


def of(name: str, **changes: float) -> list[float]:
    return [size(FIGURES[name], length, **changes) for length in LENGTHS]


def only_fix(found: ModelCheck) -> str:
    (fix,) = {finding.fix for finding in found.findings}
    return fix


@pytest.mark.parametrize("name", [name for name in CONFIGS if CONFIGS[name].get("sliding_window") != 4096])
def test_sizes_by_the_published_dimensions_hold(name: str, tmp_path: Path) -> None:
    found = checked(tmp_path, name, of(name), noise_share=0.001)
    (row,) = [row for row in found.checks if row.check == CHECK]
    assert row.status == "holds", found.findings
    assert "keys and values in bf16" in row.why
    off = checked(tmp_path, name, [1.07 * each for each in of(name)])
    assert {finding.length_tokens for finding in off.findings if finding.check == CHECK} == set(LENGTHS)
    for finding, expected in zip(off.findings, of(name), strict=True):
        assert [finding.found, finding.expected] == pytest.approx([1.07 * expected, expected])
        assert (finding.relation, finding.unit) == ("about", "bytes")


def test_shipped_models_follow_from_their_configs(tmp_path: Path) -> None:
    for model, name in (("kimi-linear", "Kimi-Linear-48B-A3B"), ("qwen3.5-397b", "Qwen3.5-397B-A17B")):
        found = check_model(model, noise_share=1e-9, kv_from=config_file(tmp_path, name))
        assert {row.status for row in found.checks if row.check == CHECK} == {"holds"}


def test_fp8_sizes_are_of_fp8(tmp_path: Path) -> None:
    name = "Kimi-Linear-48B-A3B"
    fp8 = of(name, kv=0.5)
    assert checked(tmp_path, name, fp8, kv_dtype="fp8").holds
    assert only_fix(checked(tmp_path, name, fp8)).startswith("they would fit keys and values in fp8;")
    assert only_fix(checked(tmp_path, name, of(name), kv_dtype="fp8")).startswith(
        "they would fit keys and values in bf16;"
    )


def test_half_the_size_of_a_cache_that_only_grows_has_two_explanations(tmp_path: Path) -> None:
    name = "DeepSeek-V3"
    found = checked(tmp_path, name, [each / 2 for each in of(name)])
    assert only_fix(found).startswith("they would fit keys and values in fp8, or one GPU of 2;")


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_sizes_of_one_gpu(gpus: int, tmp_path: Path) -> None:
    name = "Kimi-Linear-48B-A3B"
    found = checked(tmp_path, name, [each / gpus for each in of(name)])
    assert only_fix(found).startswith(f"they would fit one GPU of {gpus};")


def test_missing_states_and_states_in_bf16(tmp_path: Path) -> None:
    name = "Kimi-Linear-48B-A3B"
    found = checked(tmp_path, name, of(name, states=0.0), noise_share=0.01)
    assert only_fix(found).startswith("they would fit no states (43,417,600 bytes);")
    figures = FIGURES[name]
    small = [figures.growing * n + figures.state / 2 + figures.convolution for n in LENGTHS]
    assert only_fix(checked(tmp_path, name, small, noise_share=0.001)).startswith(
        "they would fit recurrent states in bf16;"
    )
    assert checked(tmp_path, name, small, noise_share=0.001, state_dtype="bf16").holds


def test_two_slips_at_once(tmp_path: Path) -> None:
    name = "Kimi-Linear-48B-A3B"
    found = checked(tmp_path, name, [each / 4 for each in of(name, states=0.0)], noise_share=0.01)
    assert "no states (43,417,600 bytes) and one GPU of 4" in only_fix(found)


def test_windows_as_long_as_the_prompt(tmp_path: Path) -> None:
    name = "MiMo-V2-Flash"
    figures = FIGURES[name]
    found = checked(tmp_path, name, [(figures.growing + figures.windows / 128) * n for n in LENGTHS])
    assert "sliding windows as long as the prompt" in only_fix(found)


def test_what_nothing_explains(tmp_path: Path) -> None:
    name = "DeepSeek-V3"
    found = checked(tmp_path, name, [each * 1.37 for each in of(name)])
    assert only_fix(found) == "check the sizes, their unit, and whether the config is this model's"


def test_without_a_config_nothing_is_checked_against_one(tmp_path: Path) -> None:
    assert CHECK not in {row.check for row in check_model(model_file(tmp_path, of("DeepSeek-V3"))).checks}


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "check", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


def test_exit_codes_and_words(tmp_path: Path) -> None:
    config = config_file(tmp_path, "DeepSeek-V3")
    good, halved = of("DeepSeek-V3"), [each / 2 for each in of("DeepSeek-V3")]
    assert run(model_file(tmp_path, good), "--kv-from", config).exit_code == 0
    failed = run(model_file(tmp_path, halved), "--kv-from", config)
    assert failed.exit_code == 6
    assert "mine: 1 failed" in failed.stdout
    assert "H200 at 1,024 tokens: found 35,979,264 bytes, expected about 71,958,528" in failed.stdout
    assert failed.stdout.count("fix: they would fit keys and values in fp8") == 1
    assert all(len(line) <= 80 for line in failed.stdout.splitlines())
    assert run(model_file(tmp_path, halved), "--kv-from", config, "--kv-dtype", "fp8").exit_code == 0
    assert run(model_file(tmp_path, halved), "--kv-from", config, "--kv-dtype", "fp4").exit_code == 2
    assert run(model_file(tmp_path, halved), "--kv-dtype", "fp8").exit_code == 2
    assert run(model_file(tmp_path, halved), "--kv-from", str(tmp_path / "none.json")).exit_code == 4


def test_json(tmp_path: Path) -> None:
    path = model_file(tmp_path, [each / 2 for each in of("DeepSeek-V3")])
    result = run(path, "--kv-from", config_file(tmp_path, "DeepSeek-V3"), "--json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("models check")).validate(document)
    assert document["status"] == "failed"
    assert [finding["expected"] for finding in document["data"]["findings"]] == of("DeepSeek-V3")


def test_all_that_is_wrong_comes_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        check_model("no-such-model", noise_share=2.0, kv_from=str(tmp_path / "none.json"), kv_dtype="fp4")
    places = [problem.where for problem in caught.value.problems]
    assert places == ["--noise", "--kv-dtype", str(tmp_path / "none.json"), "models check"]
