"""What ``models import`` refuses: broken files, figures that contradict each other, wrong arguments."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from prfaas_opt import schemas
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.import_api import import_measured
from tests import benchmarks as made

GOOD = json.dumps([made.vllm_serve(), made.vllm_serve(4000, 400.0)])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    Path("good.json").write_text(GOOD, encoding="utf-8")
    return tmp_path


def refused(*files: str, gpus: int = 2, **options: Any) -> list[Problem]:
    fixed: dict[str, Any] = {"name": "m", "hardware": "H200", "kv_from": "internal-1t"}
    with pytest.raises(InputError) as caught:
        import_measured(files, gpus_per_instance=gpus, **(fixed | options))
    assert not Path("models").exists()
    return list(caught.value.problems)


def write(name: str, content: Any) -> str:
    raw = content if isinstance(content, bytes) else None
    text = content if isinstance(content, str) else json.dumps(content) if raw is None else ""
    Path(name).write_bytes(text.encode() if raw is None else raw)
    return name


def test_the_good_file_is_good() -> None:
    import_measured(["good.json"], "m", "H200", kv_from="internal-1t")
    assert Path("models/m.yaml").is_file()


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


def with_metric(record: dict[str, Any], name: str, **changes: Any) -> dict[str, Any]:
    return record | {name: record[name] | changes}


def guidellm_with(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    report = json.loads(json.dumps(made.guidellm()))
    at = report["benchmarks"][1]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return dict(report)


NAN, INF = float("nan"), float("inf")
PLAIN = "length_tokens,prefill_s\n1000,0.1\n"
RECORDS: dict[str, tuple[str, Any, str, str, str]] = {
    # name of the file, content, code, place, a part of the message
    "truncated": ("f.json", GOOD[:-40], "not-json", "f.json:1", "ends too early"),
    "truncated second line": (
        "f.jsonl",
        json.dumps(made.one_batch()) + '\n{"batch_size": 1',
        "not-json",
        "f.jsonl:2",
        "",
    ),
    "no json": ("f.jsonl", json.dumps(made.one_batch()) + "\nnonsense\n", "not-json", "f.jsonl:2", "nonsense"),
    "twice a key": (
        "f.json",
        '{"completed": 1,\n' + json.dumps(made.vllm_serve())[1:],
        "duplicate-key",
        "f.json:2",
        "",
    ),
    "binary": ("f.json", b"\x00\xff\xfe", "unreadable-file", "f.json:1", "0xff"),
    "empty": ("f.json", " \n", "empty-file", "f.json", "is empty"),
    "no runs": ("f.json", "[]", "empty-run", "f.json", "holds no run"),
    "no mapping": ("f.json", [made.vllm_serve(), 5], "wrong-type", "f.json:1 [1]", "found 5"),
    "only a heading": ("f.csv", "length_tokens,prefill_s\n", "empty-run", "f.csv", "holds no run"),
    "other format": ("f.json", {"a": 1}, "unknown-format", "f.json", "it has the fields a"),
    "seconds without a unit": (
        "f.json",
        {key.removesuffix("_ms"): value for key, value in made.vllm_serve().items()},
        "unknown-format",
        "f.json",
        "",
    ),
    "vllm nan": ("f.json", made.vllm_serve(median_ttft_ms=NAN), "not-finite", "f.json:1 median_ttft_ms", "found nan"),
    "vllm inf": ("f.json", made.vllm_serve(mean_e2el_ms=INF), "not-finite", "f.json:1 mean_e2el_ms", "found inf"),
    "vllm text": ("f.json", made.vllm_serve(duration="3 s"), "wrong-type", "f.json:1 duration", '"3 s"'),
    "vllm negative": ("f.json", made.vllm_serve(mean_ttft_ms=-1.0), "out-of-range", "f.json:1 mean_ttft_ms", "-1"),
    "vllm missing": ("f.json", without(made.vllm_serve(), "duration"), "missing-key", "f.json:1 duration", "missing"),
    "vllm failed": ("f.json", made.vllm_serve(failed=2), "failed-requests", "f.json:1 completed", "10 of 10"),
    "vllm unfinished": ("f.json", made.vllm_serve(num_prompts=12), "failed-requests", "f.json:1 completed", "10 of 12"),
    "vllm empty": ("f.json", made.vllm_serve(completed=0), "empty-run", "f.json:1 completed", "found 0"),
    "vllm s for ms": (
        "f.json",
        made.vllm_serve(mean_ttft_ms=0.1, median_ttft_ms=0.1, median_tpot_ms=0.02, mean_e2el_ms=0.3),
        "inconsistent",
        "f.json:1",
        "0.001 requests in flight",
    ),
    "vllm s for ms, no whole latency": (
        "f.json",
        without(made.vllm_serve(mean_ttft_ms=0.1, median_ttft_ms=0.1, median_tpot_ms=0.02), "mean_e2el_ms"),
        "inconsistent",
        "f.json:1",
        "0.001 requests in flight",
    ),
    "vllm s for ms, TTFT alone": (
        "f.json",
        made.vllm_serve(ttft_ms=400.0) | {"mean_ttft_ms": 0.4, "median_ttft_ms": 0.4},
        "inconsistent",
        "f.json:1",
        "expected about 0.2004 s: TTFT and 10 steps",
    ),
    "vllm us for ms": ("f.json", made.vllm_serve(mean_ttft_ms=1e5), "inconsistent", "f.json:1", "TTFT of 100 s"),
    "vllm overlap": ("f.json", made.vllm_serve(duration=1.5), "inconsistent", "f.json:1", "2 requests in flight"),
    "vllm too fast": (
        "f.json",
        made.vllm_serve(100_000_000, 100.0),
        "implausible",
        "f.json:1",
        "1e+09 tokens/s",
    ),
    "latency without its name": ("f.json", made.vllm_latency(), "missing-key", "f.json:1", "prompt length (isl)"),
    "latency in ms": (
        "isl1000-osl1-bs1.json",
        made.vllm_latency(avg_latency=200.0),
        "inconsistent",
        "isl1000-osl1-bs1.json:1 avg_latency",
        "found 200 s",
    ),
    "latency nan": (
        "isl1000-osl1-bs1.json",
        made.vllm_latency(latencies=[0.2, NAN]),
        "not-finite",
        "isl1000-osl1-bs1.json:1 latencies[1]",
        "",
    ),
    "latency slow": (
        "isl9-osl1-bs1.json",
        made.vllm_latency(200.0),
        "implausible",
        "isl9-osl1-bs1.json:1 latencies",
        "",
    ),
    "sglang empty": ("f.json", made.sglang_serving(completed=0), "empty-run", "f.json:1 completed", "found 0"),
    "sglang nan": ("f.json", made.sglang_serving(median_ttft_ms=NAN), "not-finite", "f.json:1 median_ttft_ms", ""),
    "sglang s for ms": (
        "f.json",
        made.sglang_serving(mean_ttft_ms=0.1, median_ttft_ms=0.1, median_tpot_ms=0.02, mean_e2e_latency_ms=0.3),
        "inconsistent",
        "f.json:1",
        "0.001 requests in flight",
    ),
    "sglang rate": ("f.json", made.sglang_serving(request_rate=None), "wrong-type", "f.json:1 request_rate", "nothing"),
    "batch in ms": (
        "f.json",
        made.one_batch() | {"prefill_latency": 100.0},
        "inconsistent",
        "f.json:1 prefill_latency",
        "",
    ),
    "step in ms": (
        "f.json",
        made.one_batch() | {"median_decode_latency": 20.0},
        "inconsistent",
        "f.json:1 median_decode_latency",
        "expected 0.02 s",
    ),
    "batch nan": ("f.json", made.one_batch(prefill_latency=NAN), "not-finite", "f.json:1 prefill_latency", ""),
    "batch of half": ("f.json", made.one_batch(batch_size=1.5), "wrong-type", "f.json:1 batch_size", "1.5"),
    "aiperf nan": (
        "f.json",
        with_metric(made.aiperf(), "time_to_first_token", p50=NAN),
        "not-finite",
        "f.json:1 time_to_first_token.p50",
        "",
    ),
    "aiperf unit": (
        "f.json",
        with_metric(made.aiperf(), "time_to_first_token", unit="tokens"),
        "bad-unit",
        "f.json:1 time_to_first_token",
        '"tokens"',
    ),
    "aiperf mislabelled": (
        "f.json",
        with_metric(made.aiperf(), "time_to_first_token", unit="s"),
        "inconsistent",
        "f.json:1",
        "TTFT of 100 s",
    ),
    "aiperf cancelled": ("f.json", made.aiperf(was_cancelled=True), "failed-requests", "f.json:1 was_cancelled", ""),
    "aiperf errors": (
        "f.json",
        made.aiperf(error_summary=[{"count": 2}]),
        "failed-requests",
        "f.json:1 error_summary",
        "",
    ),
    "aiperf empty": (
        "f.json",
        with_metric(made.aiperf(), "request_count", avg=0.0),
        "empty-run",
        "f.json:1",
        "no request completed",
    ),
    "aiperf csv errors": (
        "f.csv",
        made.aiperf_csv().replace("Request Count,", "Request Error Rate (%),12.5\nRequest Count,"),
        "failed-requests",
        "f.csv:1",
        "12.5 % of the requests",
    ),
    "aiperf csv text": (
        "f.csv",
        made.aiperf_csv().replace("Request Count,10.00", "Request Count,ten"),
        "wrong-type",
        "f.csv:10 Request Count.Value",
        "",
    ),
    "genai nan": (
        "f.json",
        with_metric(made.genai_perf(), "request_latency", avg=NAN),
        "not-finite",
        "f.json:1 request_latency.avg",
        "",
    ),
    "genai csv nan": ("f.csv", made.genai_perf_csv(ttft_ms=NAN), "not-finite", "f.csv:2", "found nan"),
    "guidellm empty": ("f.json", made.guidellm() | {"benchmarks": []}, "empty-run", "f.json:1 benchmarks", ""),
    "guidellm no requests": (
        "f.json",
        guidellm_with(("metrics", "request_totals", "successful"), 0),
        "empty-run",
        "f.json:1 benchmarks[1].metrics.request_totals.successful",
        "",
    ),
    "guidellm errors": (
        "f.json",
        guidellm_with(("metrics", "request_totals", "errored"), 3),
        "failed-requests",
        "f.json:1 benchmarks[1].metrics.request_totals.errored",
        "found 3",
    ),
    "guidellm nan": (
        "f.json",
        guidellm_with(("metrics", "time_to_first_token_ms", "successful", "median"), NAN),
        "not-finite",
        "f.json:1 benchmarks[1].metrics.time_to_first_token_ms.successful.median",
        "",
    ),
    "guidellm ms for s": (
        "f.json",
        guidellm_with(("metrics", "request_latency", "successful", "mean"), 600.0),
        "inconsistent",
        "f.json:1 benchmarks[1]",
        "",
    ),
    "npz truncated": ("f.npz", made.npz(made.dynamo_prefill())[:-30], "not-npz", "f.npz", ""),
    "npz pickled": (
        "f.npz",
        made.npz(made.dynamo_prefill(prefill_isl=np.array([1000, None], dtype=object))),
        "not-npz",
        "f.npz",
        "allow_pickle",
    ),
    "npz of others": ("f.npz", made.npz({"x": [1]}), "unknown-format", "f.npz", "fields x"),
    "npz nan": (
        "f.npz",
        made.npz(made.dynamo_prefill(prefill_ttft=[100.0, NAN])),
        "not-finite",
        "f.npz prefill_ttft[1]",
        "",
    ),
    "npz lengths": (
        "f.npz",
        made.npz(made.dynamo_prefill(prefill_ttft=[100.0])),
        "length-mismatch",
        "f.npz prefill_ttft",
        "found 1 value, expected 2",
    ),
    "npz in s": (
        "f.npz",
        made.npz(made.dynamo_prefill(prefill_ttft=[0.5, 2.0])),
        "inconsistent",
        "f.npz prefill_ttft",
        "gives 400 GPUs",
    ),
    "dynamo steps in s": (
        "f.json",
        made.dynamo_decode(z_itl=[0.01, 0.02, 0.011, 0.03]),
        "implausible",
        "f.json:1 z_itl",
        "gives a decode step of 0.01 ms, expected 0.1 to 2,000 ms",
    ),
    "dynamo usage": (
        "f.json",
        made.dynamo_decode(x_kv_usage=[1, 10, 2, 20]),
        "out-of-range",
        "f.json:1 x_kv_usage[1]",
        "",
    ),
    "csv text": ("f.csv", PLAIN + "2000,fast\n", "wrong-type", "f.csv:3 prefill_s", '"fast"'),
    "csv nan": ("f.csv", PLAIN + "2000,nan\n", "not-finite", "f.csv:3 prefill_s", ""),
    "csv cells": ("f.csv", PLAIN + "2,000,0.2\n", "length-mismatch", "f.csv:3", "3 cells"),
    "csv in ms": ("f.csv", PLAIN + "2000,2000\n", "implausible", "f.csv:3 prefill_s", "1 tokens/s"),
    "csv in ms, all of it": (
        "f.csv",
        "length_tokens,prefill_s\n1024,90\n4096,300\n",
        "implausible",
        "f.csv:2 prefill_s",
        "11.4 tokens/s, expected 20 to 5,000,000",
    ),
    "csv steps in ms": (
        "f.csv",
        PLAIN.replace("\n1000,0.1", ",batch,step_s\n1000,0.1,,") + ",,8,12\n",
        "implausible",
        "f.csv:3 step_s",
        "gives a decode step of 12,000 ms",
    ),
    "gz cut off": ("f.json.gz", gzip.compress(b'{"model_id": "m"}' * 99)[:40], "unreadable-file", "f.json.gz", "gzip"),
    "gz of gz": ("f.gz", gzip.compress(gzip.compress(b"{}")), "unreadable-file", "f.gz:1", "0x8b"),
    "csv without a time": ("f.csv", PLAIN + "2000,\n", "missing-key", "f.csv:3", "has no time"),
    "csv without a length": ("f.csv", PLAIN + ",0.2\n", "wrong-type", "f.csv:3 length_tokens", ""),
    "csv two columns": (
        "f.csv",
        "length_tokens,prefill_s,prefill_s\n1,2,3\n",
        "duplicate-key",
        "f.csv:1 prefill_s",
        "",
    ),
    "csv two units": (
        "f.csv",
        "length_tokens,prefill_s,prefill_ms\n1000,1,1000\n",
        "duplicate-key",
        "f.csv:2 prefill_ms",
        "",
    ),
    "csv two models": (
        "f.csv",
        "model,length_tokens,prefill_s\na,1000,0.1\nb,2000,0.2\n",
        "mixed-models",
        "f.csv:3 model",
        "is of the model b, expected a as in f.csv:2 model",
    ),
    "vllm two models": (
        "f.json",
        [made.vllm_serve(), made.vllm_serve(4000, 400.0, model_id="other")],
        "mixed-models",
        "f.json:1 [1].model_id",
        "other",
    ),
    "one length": ("f.json", made.vllm_serve(model_id=None), "too-short", "FILES", "at 1,000 tokens only"),
    "all under load": (
        "f.json",
        made.vllm_serve(max_concurrency=4, duration=0.75),
        "no-prefill",
        "f.json:1",
        "TTFT at concurrency 4",
    ),
    "steps only": ("f.json", made.dynamo_decode(), "no-prefill", "FILES", "no prefill latency is left"),
    "too steep": (
        "f.csv",
        "length_tokens,prefill_s\n1000,0.1\n1010,0.2\n",
        "implausible",
        "models/m.yaml",
        "so nothing was written",
    ),
}


@pytest.mark.parametrize("case", RECORDS)
def test_bad_files_are_refused_with_their_place(case: str) -> None:
    name, content, code, where, message = RECORDS[case]
    problems = refused(write(name, content))
    found = [p for p in problems if p.code == code and p.where.startswith(where) and message in p.message]
    assert found, "\n".join(map(str, problems))
    assert all(problem.fix for problem in problems)


def test_folders_and_files_that_are_not_there() -> None:
    Path("folder").mkdir()
    codes = [(problem.code, problem.where) for problem in refused("gone.json", "folder")]
    assert codes == [("missing-file", "gone.json"), ("missing-file", "folder")]


def test_all_that_is_wrong_comes_at_once() -> None:
    files = [write("a.json", made.vllm_serve(median_ttft_ms=NAN, duration=-1.0)), write("b.json", "{"), "good.json"]
    problems = refused(*files, "good.json", name="a/b", hardware=" ", gpus=0, kv_from="no-model")
    assert [problem.where for problem in problems] == [
        "--as",
        "--hardware",
        "--gpus-per-instance",
        "good.json",
        "a.json:1 median_ttft_ms",
        "a.json:1 duration",
        "b.json:1",
        "--kv-from",
    ]


def test_one_length_names_what_was_left_out_besides() -> None:
    one = write("one.json", made.vllm_serve())
    loaded = write("loaded.json", made.vllm_serve(4000, 400.0, max_concurrency=4, duration=1.5))
    assert [(p.code, p.where) for p in refused(one, loaded)] == [
        ("no-prefill", "loaded.json:1"),
        ("too-short", "FILES"),
    ]


def test_files_of_two_models_do_not_mix() -> None:
    other = write("other.json", made.aiperf(8000, 900.0))
    Path("good.json").write_text(GOOD.replace("house-70b", "house-8b"), encoding="utf-8")
    (problem,) = refused("good.json", other)
    assert (problem.code, problem.where) == ("mixed-models", "other.json:1 input_config.models.items[0].name")


def test_gpus_that_the_file_contradicts() -> None:
    (problem,) = refused(write("f.npz", made.npz(made.dynamo_prefill())), gpus=8)
    assert (problem.code, problem.message.partition(",")[0]) == (
        "inconsistent",
        "gives 2 GPUs an instance by its throughput of a GPU",
    )
    assert "--gpus-per-instance" in problem.fix


def test_a_file_that_is_there_is_not_replaced() -> None:
    Path("mine.yaml").write_text("keep", encoding="utf-8")
    (problem,) = refused("good.json", output="mine.yaml")
    assert problem.code == "file-exists"
    assert Path("mine.yaml").read_text(encoding="utf-8") == "keep"
    import_measured(["good.json"], "m", "H200", kv_from="internal-1t", output="mine.yaml", force=True)
    assert Path("mine.yaml").read_text(encoding="utf-8") != "keep"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"kv_dtype": "fp8"}, "not-supported"),
        ({"kv_from": None, "kv_dtype": "fp8"}, "not-supported"),
        ({"kv_from": "gone.json"}, "missing-file"),
        ({"kv_from": "gone.yaml"}, "missing-file"),
    ],
)
def test_kvcache_that_is_not_there(options: dict[str, Any], code: str) -> None:
    (problem,) = refused("good.json", **options)
    assert problem.code == code


def test_errors_of_the_command_meet_their_schema() -> None:
    write("bad.json", made.vllm_serve(failed=1))
    result = CliRunner().invoke(app, ["models", "import", "bad.json", "--as", "m", "--hardware", "H200", "--json"])
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("error")).validate(document)
    assert (document["command"], document["errors"][0]["code"]) == ("models import", "failed-requests")
