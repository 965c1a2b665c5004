"""``models import`` on the command line: what it shows, its JSON, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.cli import app
from tests import benchmarks as made
from tests.benchmarks import CONFIG, write


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("COLUMNS", "80")
    Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "import", *arguments])


def test_the_command_shows_what_it_took_and_left_out() -> None:
    write(
        "bench.json",
        [
            made.vllm_serve(),
            made.vllm_serve(4000, 400.0),
            made.vllm_serve(8000, 900.0, max_concurrency=4, duration=2.75),
        ],
    )
    result = run("bench.json", "--as", "house-70b", "--hardware", "H200", "--kv-from", "config.json")
    assert result.exit_code == 0
    out = result.stdout
    assert "house-70b on H200, 8 GPUs an instance" in out
    assert "vLLM bench serve" in out
    assert "TTFT at concurrency 4" in out
    assert "Written: models/house-70b.yaml" in out
    assert "note: " in result.stderr
    assert max(map(len, (out + result.stderr).splitlines())) <= 80


def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    write("[red]a.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)])
    result = run("[red]a.json", "--as", "m", "--hardware", "H[b]200", "--kv-from", "config.json")
    assert result.exit_code == 0
    assert result.stdout.count("[red]a.json") == 3  # in the table and the provenance of both figures
    assert "m on H[b]200, 8 GPUs" in result.stdout


def test_json_of_the_command_meets_its_schema() -> None:
    write("p.npz", made.npz(made.dynamo_prefill()))
    write("d.npz", made.npz(made.dynamo_decode()))
    fixed = ("--as", "m", "--hardware", "H200", "--gpus-per-instance", "2", "--kv-from", "config.json", "--json")
    result = run("p.npz", "d.npz", *fixed)
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("models import")).validate(document)
    assert (document["command"], document["status"]) == ("models import", "ok")
    assert document["data"]["prefill"][0] == {"length_tokens": 1000, "latency_s": 0.1, "runs": 1}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_without_kvcache_ends_as_bad_input(as_json: bool) -> None:
    write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)])
    result = run("v.json", "--as", "m", "--hardware", "H200", *(["--json"] if as_json else []))
    assert result.exit_code == 4
    assert Path("models/m.yaml").is_file()
    said = json.loads(result.stdout)["errors"][0]["fix"] if as_json else result.stderr
    assert "--kv-from config.json" in said
