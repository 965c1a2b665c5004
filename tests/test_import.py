"""Measured profiles: the points of each format by hand, what is left out, files that load, the command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from prfaas_opt.import_api import missing_kv_cache
from prfaas_opt.io.benchmark_file import read_benchmark_file
from prfaas_opt.io.benchmarks import benchmark_formats, format_of
from prfaas_opt.io.loading import load_model
from tests import benchmarks as made
from tests.benchmarks import CONFIG, KV_BYTES_PER_TOKEN, imported, points, steps, write

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "formats"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("COLUMNS", "80")
    Path("config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return tmp_path


TWO_LENGTHS: dict[str, tuple[tuple[str, Any], ...]] = {
    "vLLM bench serve": (("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]),),
    "SGLang bench_serving": (("s.json", [made.sglang_serving(), made.sglang_serving(4000, 400.0)]),),
    "SGLang bench_one_batch": (("b.json", [made.one_batch(), made.one_batch(1, 4000, 0.4)]),),
    "AIPerf 0.13.0": (("a1.json", made.aiperf()), ("a2.json", made.aiperf(4000, 400.0))),
    "AIPerf": (("a1.csv", made.aiperf_csv()), ("a2.csv", made.aiperf_csv(4000, 400.0))),
    "GenAI-Perf": (("g1.json", made.genai_perf()), ("g2.json", made.genai_perf(4000, 400.0))),
    "GenAI-Perf, CSV": (("g1.csv", made.genai_perf_csv()), ("g2.csv", made.genai_perf_csv("4,000", 400.0))),
    "GuideLLM 0.8.1": (("gl.json", made.guidellm()),),
}
"""Prompts of 1000 and 4000 tokens of 0.1 and 0.4 s, steps of 20 ms at batch 1, as each tool writes them."""


@pytest.mark.parametrize("tool", TWO_LENGTHS)
def test_serving_benchmarks_give_prefill_and_steps_of_requests_alone(tool: str) -> None:
    answer = imported(*(write(name, content) for name, content in TWO_LENGTHS[tool]))
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    half = 50 if "one_batch" in tool else 5.5
    assert steps(answer) == pytest.approx({(1, round(1000 + half)): 0.02, (1, round(4000 + half)): 0.02})
    source = tool.partition(", CSV")[0]
    assert answer.provenance["prefill"].startswith(f"measured, {source}, ")
    assert f"{answer.files[0].format} {answer.files[0].version}".strip() == source
    assert all(Path(file.file).name in answer.provenance["prefill"] for file in answer.files)


@pytest.mark.parametrize("tool", TWO_LENGTHS)
def test_what_is_written_loads_and_passes_through_the_points(tool: str) -> None:
    answer = imported(*(write(name, content) for name, content in TWO_LENGTHS[tool]))
    assert answer.file == str(Path("models", "house-70b.yaml"))
    assert Path(answer.file).read_text(encoding="utf-8") == answer.model_yaml
    profile = load_model("house-70b").profile("H200")
    assert profile is not None
    assert profile.gpus_per_instance == 2
    assert [profile.prefill_s(float(length)) for length in (1000, 4000)] == pytest.approx([0.1, 0.4])
    assert profile.kv_bytes(1000.0) == 1000 * KV_BYTES_PER_TOKEN
    assert profile.decode is not None
    assert profile.decode.at(2000.0).step_s(1) == pytest.approx(0.02)
    kinds = {figure: source.kind for figure, source in profile.provenance.items()}
    assert kinds == {"prefill": "measured", "decode": "measured", "kv_cache": "derived"}


@pytest.mark.parametrize("form", made.MINIMAL)
def test_every_file_is_of_exactly_one_format(form: str) -> None:
    name, content = made.MINIMAL[form]
    file = read_benchmark_file(write(name, content))
    expected = form.removesuffix(" CSV").removesuffix(" JSON")
    assert [found.name for found in benchmark_formats() if found.matches(file)] == [expected]
    assert format_of(file).name == expected


def test_there_is_a_file_of_every_format() -> None:
    formats = {found.name for found in benchmark_formats()}
    assert len(formats) == 9
    assert {form.removesuffix(" CSV").removesuffix(" JSON") for form in made.MINIMAL} == formats


def test_bench_latency_is_read_by_the_name_of_its_file() -> None:
    files = [
        write("latency-isl1000-osl1-bs1.json", made.vllm_latency(0.1)),
        write("latency-isl4000-osl1-bs1.json", made.vllm_latency(0.4)),
        write("latency-isl4000-osl128-bs1.json", made.vllm_latency(3.0)),
        write("latency-isl4000-osl1-bs8.json", made.vllm_latency(3.2)),
    ]
    answer = imported(*files)
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    assert answer.decode == ()
    assert answer.decode_form is None
    assert [each.reason for each in answer.left_out] == [
        "128 tokens were decoded in it, expected one",
        "a batch of 8 prompts, expected one alone",
    ]


def test_one_batch_gives_steps_by_batch_and_leaves_out_prefill_of_several_prompts() -> None:
    no_decode = made.one_batch(1, 4000, 0.4)
    del no_decode["median_decode_latency"], no_decode["median_decode_throughput"]
    text = "torch_tp4:\n" + json.dumps(made.one_batch(), indent=2) + json.dumps(no_decode | {"output_len": 1})
    path = write("result.jsonl", text + "\n\n", made.one_batch(4, 1000, 0.39, 0.025))
    answer = imported(path)
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    assert steps(answer) == pytest.approx({(1, 1050): 0.02, (4, 1050): 0.025})
    assert answer.decode_form == "by batch"
    (left,) = answer.left_out
    assert (left.where, left.figure) == ("result.jsonl:15", "prefill")
    assert any("context of 1,050 tokens only" in note for note in answer.warnings)


def test_dynamo_gives_prefill_and_steps_by_batch_and_context() -> None:
    files = write("prefill.npz", made.npz(made.dynamo_prefill())), write("d.npz", made.npz(made.dynamo_decode()))
    answer = imported(*files)
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    # Batch: 0.01 * 100,000 / 1000 = 1, 0.1 * 100,000 / 1000 = 10, and the same at 2000.
    expected = {(1, 1000): 0.010, (10, 1000): 0.020, (1, 2000): 0.011, (10, 2000): 0.030}
    assert steps(answer) == pytest.approx(expected)
    assert answer.decode_form == "by batch and context"
    profile = load_model("house-70b").profile("H200")
    assert profile is not None
    assert profile.decode is not None
    for (batch, context), seconds in expected.items():
        assert profile.decode.at(float(context)).step_s(batch) == pytest.approx(seconds)


def test_steps_that_are_no_table_are_fitted() -> None:
    # 4 ms + batch * (0.1 ms + 0.2 us * context), exactly; batches 1, 10, 1, 5, 20.
    context = [1000.0, 1000.0, 2000.0, 2000.0, 500.0]
    batch = [1, 10, 1, 5, 20]
    itl = [4 + b * (0.1 + 0.2e-3 * c) for b, c in zip(batch, context, strict=True)]
    decode = made.dynamo_decode(
        x_kv_usage=[b * c / 100_000 for b, c in zip(batch, context, strict=True)],
        y_context_length=context,
        z_itl=itl,
        z_thpt_per_gpu=[b / t * 1000 / 2 for b, t in zip(batch, itl, strict=True)],
    )
    answer = imported(write("p.npz", made.npz(made.dynamo_prefill())), write("d.json", decode))
    formula = answer.decode_formula
    assert formula is not None
    found = (formula.base_s, formula.per_request_s, formula.per_context_token_s)
    assert found == pytest.approx((4e-3, 1e-4, 2e-7), rel=1e-6)
    assert formula.worst_share < 1e-6
    assert answer.provenance["decode"] == "fitted, to 5 points of Dynamo SLA profiler, d.json"
    assert any("formula fitted to 5 points" in note for note in answer.warnings)
    assert any("at most 5 were measured: add memory" in note for note in answer.warnings)
    profile = load_model("house-70b").profile("H200")
    assert profile is not None
    assert profile.decode is not None
    assert profile.decode.at(2000.0).step_s(5) == pytest.approx(6.5e-3)


def test_of_steps_too_few_for_a_table_those_at_one_context_are_taken() -> None:
    loaded = made.vllm_serve(max_concurrency=4, duration=0.75, median_tpot_ms=24.0)
    answer = imported(write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0), loaded]))
    assert steps(answer) == pytest.approx({(1, 1006): 0.020, (4, 1006): 0.024})
    (left,) = [each for each in answer.left_out if each.figure == "decode"]
    assert left.where == "v.json:1 [1]"
    assert "those at 1,006 tokens are taken" in left.reason


def test_steps_without_a_context_are_left_out_beside_others() -> None:
    text = "length_tokens,prefill_ms,batch,step_ms,context_tokens\n1K,1e2,,,\n2K,2e2,,,\n,,1,20,\n,,2,21,1K\n"
    answer = imported(write("mine.csv", text))
    assert steps(answer) == pytest.approx({(2, 1024): 0.021})
    assert [each.where for each in answer.left_out] == ["mine.csv:4"]


def test_no_coefficient_of_a_fit_is_negative() -> None:
    # Steps that get faster with the context: without the limit its coefficient would be below zero.
    rows = [(1, 1000, 20.0), (8, 1000, 30.0), (1, 2000, 19.0), (8, 3000, 24.0), (4, 3000, 19.0)]
    text = "batch,context_tokens,step_ms\n" + "".join(f"{b},{c},{t}\n" for b, c, t in rows)
    answer = imported(
        write("v.json", [made.vllm_serve(median_tpot_ms=0.0), made.vllm_serve(4000, 400.0)]), write("s.csv", text)
    )
    formula = answer.decode_formula
    assert formula is not None
    assert formula.per_context_token_s == 0
    assert formula.base_s > 0
    assert formula.per_request_s > 0


def test_a_csv_of_ones_own() -> None:
    text = "# ours\nlength_tokens,prefill_s,batch,step_ms,context_tokens,concurrency,note\n"
    rows = ["1K,0.1,,,,1,a", "4000,0.4,,,,,b", "8000,2.0,,,,4,c", ",,1,20,1K,,", ",,8,30,1K,,"]
    answer = imported(write("mine.csv", text + "\n".join(rows)))
    assert points(answer) == pytest.approx({1024: 0.1, 4000: 0.4})
    assert steps(answer) == pytest.approx({(1, 1024): 0.020, (8, 1024): 0.030})
    assert [(each.figure, each.where) for each in answer.left_out] == [
        ("column", "mine.csv:1"),
        ("prefill", "mine.csv:5"),
    ]


LOADED: dict[str, tuple[Any, str, str]] = {
    "vllm, concurrency": (
        made.vllm_serve(8000, 900.0, max_concurrency=4, duration=10 * 1.1 / 4),
        "TTFT at concurrency 4",
        "",
    ),
    "vllm, all at once": (made.vllm_serve(8000, 900.0, max_concurrency=None), "sent at once", "not known"),
    "vllm, rate": (
        made.vllm_serve(8000, 900.0, max_concurrency=None, request_rate=2.5),
        "TTFT at 2.5 req/s without a limit",
        "not known",
    ),
    "vllm, lengths": (
        made.vllm_serve(8000, 900.0, input_lens=[4000, 12000] * 5),
        "differ in length, by about 100 %",
        "taken",
    ),
    "vllm, times": (
        made.vllm_serve(8000, 900.0, total_input_tokens=80_001, std_ttft_ms=400.0),
        "differ in length, by about 44 %",
        "taken",
    ),
    "sglang, lengths": (
        made.sglang_serving(8000, 900.0, random_range_ratio=0.5),
        "differ in length, by about 67 %",
        "taken",
    ),
    "sglang, dataset": (made.sglang_serving(8000, 900.0, dataset_name="sharegpt"), "differ in length", "taken"),
    "sglang, rate": (
        made.sglang_serving(8000, 900.0, max_concurrency=None, request_rate=3.0),
        "TTFT at 3 req/s without a limit",
        "not known",
    ),
    "aiperf, concurrency": (
        made.aiperf(8000, 900.0, 4, request_throughput={"unit": "requests/sec", "avg": 3.6}),
        "TTFT at concurrency 4",
        "",
    ),
    "genai-perf, concurrency": (
        made.genai_perf(
            8000,
            900.0,
            input_config={"perf_analyzer": {"stimulus": {"concurrency": 4}}},
            request_throughput={"unit": "requests/sec", "avg": 3.6},
        ),
        "TTFT at concurrency 4",
        "",
    ),
    "genai-perf, rate": (
        made.genai_perf(8000, 900.0, input_config={"perf_analyzer": {"stimulus": {"request_rate": 2.0}}}),
        "TTFT at 2 req/s without a limit",
        "not known",
    ),
    "genai-perf csv, in flight": (made.genai_perf_csv("8,000", 900.0, 4.0), "with 4.4 requests in flight", "not known"),
    "guidellm, concurrency": (
        made.guidellm(
            made.guidellm_benchmark(
                8000, 900.0, config={"strategy": {"type_": "concurrent", "max_concurrency": 4}}, duration=11 / 4
            )
        ),
        "TTFT at concurrency 4",
        "",
    ),
    "guidellm, rate": (
        made.guidellm(made.guidellm_benchmark(8000, 900.0, config={"strategy": {"type_": "constant", "rate": 2.0}})),
        "TTFT at 2 req/s without a limit",
        "not known",
    ),
    "guidellm, throughput": (
        made.guidellm(made.guidellm_benchmark(8000, 900.0, config={"strategy": {"type_": "throughput"}})),
        "sent at once",
        "not known",
    ),
}


@pytest.mark.parametrize("case", LOADED)
def test_latencies_under_load_are_left_out(case: str) -> None:
    record, why_prefill, why_decode = LOADED[case]
    clean = write("clean.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)])
    answer = imported(clean, write("loaded.csv" if isinstance(record, str) else "loaded.json", record))
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    reasons = {each.figure: each.reason for each in answer.left_out}
    assert why_prefill in reasons["prefill"]
    batches = {batch for batch, context in steps(answer) if context is not None and context > 8000}
    if why_decode == "taken":
        assert batches == {1}
    elif why_decode:
        assert why_decode in reasons["decode"]
        assert not batches
    else:
        assert answer.files[1].decode_points == 1
        assert any("decode at batch 4 was measured while" in note for note in answer.warnings)


def test_warm_up_of_aiperf_is_no_part_of_the_run() -> None:
    warm = made.aiperf()
    warm["input_config"]["phases"].insert(0, {"kind": "warmup", "type": "concurrency", "concurrency": 8})
    answer = imported(write("a.json", warm), write("b.json", made.aiperf(4000, 400.0)))
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4})
    assert not any("does not tell how" in note for note in answer.warnings)


def test_a_csv_of_aiperf_tells_its_concurrency() -> None:
    loaded = write("loaded.csv", made.aiperf_csv(8000, 900.0, most=4))
    answer = imported(write("c.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]), loaded)
    reasons = {each.figure: each.reason for each in answer.left_out}
    assert reasons["prefill"] == "TTFT at concurrency 4: prompts waited for each other"
    assert reasons["decode"] == "1 requests were in flight on average, too few for a batch of 4"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"median_tpot_ms": 0.0, "total_output_tokens": 10}, "no time between tokens"),
        ({"spec_decode_acceptance_length": 2.5}, "a step gave 2.5 tokens"),
        ({"max_concurrency": 16, "duration": 0.3}, "10 requests never made a batch of 16"),
        ({"max_concurrency": 10, "duration": 0.6}, "5 requests were in flight on average, too few for a batch of 10"),
    ],
)
def test_steps_that_are_none_are_left_out(change: dict[str, Any], reason: str) -> None:
    clean = write("clean.json", [made.vllm_serve(median_tpot_ms=21.0), made.vllm_serve(4000, 400.0)])
    answer = imported(clean, write("changed.json", made.vllm_serve(**change)))
    (left,) = [each for each in answer.left_out if each.figure == "decode"]
    assert reason in left.reason
    assert answer.files[1].decode_points == 0


def test_a_file_that_is_packed_is_read_as_what_is_in_it() -> None:
    plain = imported(write("a.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]))
    Path("b.json.gz").write_bytes(gzip.compress(Path("a.json").read_bytes()))
    packed = imported(Path("b.json.gz"), force=True)
    assert packed.prefill == plain.prefill
    assert packed.files[0].file == "b.json.gz"


def test_rates_that_few_instances_have_are_taken_with_a_note() -> None:
    slow = imported(write("a.csv", "length_tokens,prefill_s\n10,0.2\n1000,11\n9000,80\n"))
    assert [note for note in slow.warnings if "check the unit" in note] == [
        "prefill of 1,000 tokens in 11 s is 90.9 tokens/s: check the unit of times"
    ]


def test_doubtful_latencies_are_used_with_a_note() -> None:
    mixed = made.vllm_serve(total_input_tokens=10_004)  # 1000.4 tokens on average: not all of one length
    slow = made.vllm_serve(4000, 400.0, mean_ttft_ms=680.0, mean_e2el_ms=880.0, duration=8.8)
    answer = imported(write("v.json", [mixed, slow]), write("g.csv", made.genai_perf_csv("8000", 900.0, 0.5)))
    assert points(answer) == pytest.approx({1000: 0.1, 4000: 0.4, 8000: 0.9})
    notes = "\n".join(answer.warnings)
    assert "v.json:1 [0]: prompts differ in length" in notes
    assert "mean TTFT is 1.7 times the median" in notes
    assert "g.csv:1: the file does not tell how requests were sent; on average 0.55 were in flight" in notes


def test_repeated_runs_give_their_median_and_a_note_where_they_scatter() -> None:
    runs = [made.vllm_serve(ttft_ms=ms) for ms in (100.0, 104.0, 180.0)]
    answer = imported(write("v.json", [*runs, made.vllm_serve(4000, 400.0)]))
    assert points(answer) == pytest.approx({1000: 0.104, 4000: 0.4})
    assert [point.runs for point in answer.prefill] == [3, 1]
    assert any("3 measurements from 0.1 to 0.18 s" in note for note in answer.warnings)


def test_kvcache_of_a_model_that_has_it() -> None:
    answer = imported(write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]), kv_from="internal-1t")
    assert answer.kv_cache_from == "internal-1t"
    mine, theirs = (load_model(name).profiles[0] for name in ("house-70b", "internal-1t"))
    assert mine.kv_bytes(8192.0) == theirs.kv_bytes(8192.0)
    assert str(mine.provenance["kv_cache"]) == "paper, table 5; taken from the model internal-1t"


def test_kvcache_of_a_profile_of_other_hardware_is_taken_with_a_note() -> None:
    kv_cache = {"lengths_tokens": [1000, 2000], "mib": [100, 200]}
    prefill = {"lengths_tokens": [1000, 2000], "latency_s": [1, 2]}
    sources = {"prefill": "measured, x", "kv_cache": "assumed, y"}
    other = {"hardware": "H20", "gpus_per_instance": 8, "prefill": prefill, "kv_cache": kv_cache, "provenance": sources}
    write("other.yaml", yaml.safe_dump({"name": "other", "profiles": [other]}))
    answer = imported(write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]), kv_from="other.yaml")
    assert load_model("house-70b").profiles[0].kv_bytes(2000.0) == 200 * 2**20
    assert any("that of other.yaml on H20: it has none on H200" in note for note in answer.warnings)


def test_kvcache_in_another_data_type() -> None:
    imported(write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]), kv_dtype="fp8")
    assert load_model("house-70b").profiles[0].kv_bytes(1000.0) == 1000 * KV_BYTES_PER_TOKEN / 2


def test_without_kvcache_the_rest_is_written_and_what_is_missing_said() -> None:
    answer = imported(write("v.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)]), kv_from=None)
    assert answer.kv_cache_from is None
    written = yaml.safe_load(Path(answer.file).read_text(encoding="utf-8"))
    assert "kv_cache" not in written
    assert written["profiles"][0]["prefill"] == {"lengths_tokens": [1000, 4000], "latency_s": [0.1, 0.4]}
    problem = missing_kv_cache(answer)
    assert (problem.code, problem.where) == ("missing-key", answer.file)
    assert "--kv-from config.json" in problem.fix


def test_tools_may_name_one_model_in_several_ways() -> None:
    files = [write(f"{i}.json", made.vllm_serve(1000 * i, 100.0 * i, model_id=name)) for i, name in MODEL_NAMES.items()]
    assert points(imported(*files)) == pytest.approx({1000: 0.1, 2000: 0.2, 3000: 0.3})


MODEL_NAMES = {1: "org/House-70B", 2: "house-70b", 3: "/models/house-70b/"}


def sample(*names: str) -> list[Path]:
    found = [path for name in names for path in sorted(SAMPLES.glob(name))]
    if not found:
        pytest.skip("the samples of benchmarks are not beside this checkout")
    return found


def test_sample_of_dynamo() -> None:
    answer = imported(*sample("dynamo/*.npz"), gpus=1)
    assert len(answer.prefill) == 17
    assert points(answer)[8236] == pytest.approx(0.17102919)
    assert answer.decode_formula is not None
    assert answer.decode_formula.mean_share < 0.1
    assert load_model("house-70b").profile("H200") is not None


def test_samples_of_serving_benchmarks() -> None:
    files = sample("vllm/*.json", "sglang/*.jsonl", "guidellm/benchmarks.json", "aiperf/profile_export_aiperf.*")
    answer = imported(*files, gpus=8)
    assert set(points(answer)) == {216, 396, 510}
    assert points(answer)[510] == pytest.approx(0.040207481499919595, rel=1e-6)
    assert {file.format for file in answer.files} == {"vLLM bench serve", "SGLang bench_serving", "GuideLLM", "AIPerf"}
    assert sum(each.figure == "prefill" for each in answer.left_out) == 5  # those at concurrency 8
    assert {step.batch for step in answer.decode} == {1, 8}


def test_sample_of_one_batch_has_steps_and_no_prefill_of_one_prompt() -> None:
    clean = write("clean.json", [made.vllm_serve(), made.vllm_serve(4000, 400.0)])
    answer = imported(clean, *sample("sglang/*one_batch*"))
    assert steps(answer)[(4, 1536)] == pytest.approx(0.018887758255004883)
    assert steps(answer)[(8, 1536)] == pytest.approx(0.023103952407836914)
    assert len([each for each in answer.left_out if each.figure == "prefill"]) == 4
