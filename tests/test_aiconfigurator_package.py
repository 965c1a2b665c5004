"""``models import --from aiconfigurator`` on the command line, and how the package itself is asked."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from prfaas_opt import estimate_api, schemas
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.estimate_api import import_estimated
from prfaas_opt.io.aiconfigurator_package import open_aiconfigurator
from prfaas_opt.io.estimator import Deployment, Question, RefusedError
from prfaas_opt.io.loading import load_model
from tests.estimators import GPT_OSS, QUESTIONS, Recorded


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("COLUMNS", "80")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "import", *arguments])


ASK = ("--from", "aiconfigurator", "openai/gpt-oss-120b", "--system", "h200_sxm")


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(estimate_api, "open_aiconfigurator", lambda: Recorded(tmp_path))


@pytest.mark.usefixtures("_installed")
def test_the_command_shows_what_it_took() -> None:
    result = run(*ASK)
    assert result.exit_code == 0
    assert "gpt-oss-120b on H200, 8 GPUs an instance" in result.stdout
    assert "Measurements" not in result.stdout
    assert "kv_cache: from the config.json of openai/gpt-oss-120b in aiconfigurator" in result.stdout
    assert "Written: models/gpt-oss-120b.yaml" in result.stdout
    assert "short prompts err low" in " ".join(result.stderr.split())
    assert max(map(len, (result.stdout + result.stderr).splitlines())) <= 80


@pytest.mark.usefixtures("_installed")
def test_json_of_the_command_meets_its_schema() -> None:
    document = json.loads(run(*ASK, "--as", "m", "--gpus", "8", "--json").stdout)
    jsonschema.Draft202012Validator(schemas.schema("models import")).validate(document)
    assert document["data"]["estimated_by"]["engine"] == "TensorRT-LLM 1.3.0rc20"
    assert document["data"]["files"] == []


@pytest.mark.usefixtures("_installed")
def test_errors_of_the_command_are_bad_input() -> None:
    result = run(*ASK, "--backend", "x", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["errors"][0]["where"] == "--backend"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from", "aiconfigurator", "openai/gpt-oss-120b"),
        ("--from", "aiconfigurator", "a", "b", "--system", "h200_sxm"),
        ("bench.json", "--as", "m", "--hardware", "H200", "--system", "h200_sxm"),
        ("bench.json", "--as", "m", "--hardware", "H200", "--length", "1K"),
        ("bench.json", "--as", "m", "--hardware", "H200", "--chunk", "8K"),
        ("bench.json", "--as", "m"),
        ("bench.json", "--hardware", "H200"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    result = run(*ASK)
    assert result.exit_code == 4
    assert "pip install 'prfaas-opt[aiconfigurator]'" in result.stderr
    assert not Path("models").exists()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls of ``cli_estimate`` of a stand-in for the package."""
    made: list[dict[str, Any]] = []
    parts = {"weights": 2.0, "activations": 0.5, "nccl": 0.25, "others": 1.0, "kvcache": 1.0, "total": 4.75}

    def cli_estimate(model: str, system: str, **options: Any) -> Any:
        made.append({"model": model, "system": system} | options)
        if model == "broken":
            raise RuntimeError("no rows for\n this shape at /opt/somewhere/data.parquet")
        return SimpleNamespace(
            ttft=12.5,
            tpot=3.5,
            backend_version="1.2",
            kv_cache_warning=None,
            moe_comm_fallbacks=(),
            raw={"gemm": "fp8", "moe": "fp4", "fmha": "bfloat16", "kvcache": "bfloat16"},
            summary=SimpleNamespace(
                get_context_latency_dict=lambda: {"a": 10.0, "b": 2.0, "c": 0.5},
                get_context_source_dict=lambda: {"a": "silicon", "b": "empirical"},
                get_generation_latency_dict=lambda: {"a": 3.5},
                get_generation_source_dict=lambda: {"a": "silicon"},
                get_memory=lambda: parts,
                get_mem_capacity_bytes=lambda: 80e9,
            ),
        )

    modules: dict[str, dict[str, Any]] = {
        "aiconfigurator.cli.api": {"cli_estimate": cli_estimate, "check_is_moe": lambda model: model != "dense"},
        "aiconfigurator_core.sdk.common": {
            "get_default_models": lambda: {"moe", "dense", "broken"},
            "SupportedSystems": {"h200_sxm"},
        },
    }
    for name, attributes in modules.items():
        module = ModuleType(name)
        module.__dict__.update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(metadata, "version", lambda _name: "0.12.0")
    return made


def test_the_package_is_asked_as_its_api_wants_it(calls: list[dict[str, Any]]) -> None:
    package = open_aiconfigurator()
    assert (package.version, package.models, package.systems) == ("0.12.0", ("broken", "dense", "moe"), ("h200_sxm",))
    moe = Deployment("moe", "h200_sxm", "trtllm", 8, 2, "fp8", "hybrid")
    prefill, decode = package.ask(moe, Question("prefill", 4096)), package.ask(moe, Question("decode", 8192, 16))
    assert (prefill.latency_ms, decode.latency_ms) == (12.5, 3.5)
    assert prefill.engine == "TensorRT-LLM 1.2"
    assert prefill.origin_ms == {"silicon": 10.0, "empirical": 2.0, "unknown": 0.5}
    assert prefill.memory is not None
    assert dataclasses.astuple(prefill.memory) == (80e9, 2 * 2**30, 1.75 * 2**30, 4.75 * 2**30)
    common = {
        "model": "moe",
        "system": "h200_sxm",
        "backend_name": "trtllm",
        "database_mode": "HYBRID",
        "prefix": 0,
        "tp_size": 8,
        "moe_tp_size": 2,
        "moe_ep_size": 4,
        "kvcache_quant_mode": "fp8",
    }
    assert calls == [
        common | {"mode": "static_ctx", "isl": 4096, "osl": 1, "batch_size": 1, "backend_version": None},
        common | {"mode": "static_gen", "isl": 8192, "osl": 2, "batch_size": 16, "backend_version": "1.2"},
    ]
    package.ask(moe, Question("prefill", 4096, cached_tokens=1024))
    assert (calls[2]["isl"], calls[2]["prefix"]) == (4096, 1024)


@pytest.mark.usefixtures("calls")
def test_a_dense_model_has_no_experts() -> None:
    answer = open_aiconfigurator().ask(dataclasses.replace(GPT_OSS, model="dense"), Question("prefill", 1024))
    assert answer.formats == {"matrices": "fp8", "attention": "bfloat16", "keys and values": "bfloat16"}


@pytest.mark.usefixtures("calls")
def test_what_the_package_raises_is_a_refusal_in_its_words() -> None:
    with pytest.raises(RefusedError, match=r"^no rows for this shape$"):
        open_aiconfigurator().ask(dataclasses.replace(GPT_OSS, model="broken"), Question("prefill", 1024))


@pytest.mark.usefixtures("calls")
def test_a_package_without_its_api_is_an_error_that_says_which_version_works() -> None:
    del sys.modules["aiconfigurator_core.sdk.common"].get_default_models
    with pytest.raises(InputError, match=r"0\.12\.0 is known to work"):
        open_aiconfigurator()


@pytest.mark.aiconfigurator
@pytest.mark.skipif(
    find_spec("aiconfigurator") is None, reason="aiconfigurator is not installed: pip install '.[aiconfigurator]'"
)
def test_the_real_package_answers_as_recorded() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its libraries are not ours to mend
        real = open_aiconfigurator()
        recorded = Recorded(Path())
        answers = {question: real.ask(GPT_OSS, question) for question in QUESTIONS}
        answer = import_estimated(GPT_OSS.model, GPT_OSS.system, output="real.yaml")
    assert load_model("real.yaml").hardware == ("H200",)
    assert answer.decode_form == "by batch and context"
    for question, found in answers.items():
        expected = recorded.ask(GPT_OSS, question)
        # Another version has other data, of the same machine.
        off = 1e-6 if real.version == recorded.version else 0.5
        assert found.latency_ms == pytest.approx(expected.latency_ms, rel=off)
        assert found.memory is not None
        assert set(found.formats) == set(expected.formats)
