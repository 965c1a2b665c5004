"""Profiles from aiconfigurator: what is taken of its answers, refused and said, on recorded answers."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_opt import plan
from prfaas_opt.errors import InputError
from prfaas_opt.estimate_api import import_estimated
from prfaas_opt.import_api import Import
from prfaas_opt.io.estimated_profile import BATCHES, CONTEXTS_TOKENS, copies_of_keys
from prfaas_opt.io.estimator import Answer, Deployment, Question, RefusedError
from prfaas_opt.io.loading import load_model
from tests.estimators import CONFIGS, DEEPSEEK, GPT_OSS, QUESTIONS, SPLIT_EXPERTS, Change, Recorded


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    monkeypatch.setenv("COLUMNS", "80")


def unchanged(_question: Question, answer: Answer) -> Answer:
    return answer


def asked(change: Change = unchanged, folder: Path | None = None, **options: Any) -> Import:
    folder = Path() if folder is None else folder
    given: dict[str, Any] = {"model": GPT_OSS.model, "system": "h200_sxm", "output": folder / "m.yaml"}
    return import_estimated(**(given | options), estimator=Recorded(folder, change))


def problems(*args: Any, **options: Any) -> dict[str, str]:
    """Place and text of each error, and that nothing was written."""
    with pytest.raises(InputError) as caught:
        asked(*args, **options)
    assert list(Path().glob("*.yaml")) == []
    return {problem.where: str(problem) for problem in caught.value.problems}


def of(figure: str, *tokens: int) -> Change:
    """A change that refuses some questions."""
    return lambda question, answer: (
        None if (question.figure, question.tokens) in {(figure, n) for n in tokens} else answer
    )


def test_the_profile_holds_the_recorded_figures_in_seconds() -> None:
    answer = asked()
    assert {row.length_tokens: row.latency_s for row in answer.prefill} == {
        1024: 0.023625,
        2048: 0.034231,
        4096: 0.054218,
        8192: 0.092659,
        16384: 0.17282,
        32768: 0.36334,
        65536: 0.81946,
        131072: 2.023,
    }
    assert answer.decode_form == "by batch and context"
    steps = {(row.batch, row.context_tokens): row.step_s for row in answer.decode}
    assert (steps[1, 1024], steps[256, 131072], len(steps)) == (0.0041691, 0.048935, 36)
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    assert (profile.gpus_per_instance, profile.engine) == (8, "TensorRT-LLM 1.3.0rc20")
    assert profile.prefill_s(8192.0) == pytest.approx(0.092659)
    assert profile.decode is not None
    assert profile.decode.at(8192.0).step_s(64) == 0.0087795


def test_every_figure_is_derived_and_says_from_what() -> None:
    answer = asked()
    assert set(answer.provenance) == {"prefill", "decode", "memory"}
    assert all(source.startswith("derived, aiconfigurator 0.12.0") for source in answer.provenance.values())
    assert "TensorRT-LLM 1.3.0rc20 on h200_sxm, tp 8, experts tp 1 ep 8" in answer.provenance["prefill"]
    assert "silicon database, 57.8 % to 92.1 % of the time from tables of measurements" in answer.provenance["prefill"]
    by = answer.estimated_by
    assert by is not None
    assert (by.version, by.backend, by.database_mode) == ("0.12.0", "trtllm", "silicon")
    assert (by.tensor_parallel, by.expert_tensor_parallel, by.expert_parallel) == (8, 1, 8)
    assert math.fsum(by.origin_shares["decode"].values()) == pytest.approx(1, abs=1e-3)


def test_kvcache_sizes_are_our_own_and_windows_count() -> None:
    asked()
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    per_token = 18 * 2 * 8 * 64 * 2
    assert profile.kv_bytes(131072.0) == per_token * 131072 + per_token * 128
    assert profile.provenance["kv_cache"].kind == "derived"


def test_fp8_keys_halve_the_size_and_are_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    play, deployments = Recorded.ask, set()

    def spy(self: Recorded, deployment: Deployment, question: Question) -> Answer:
        deployments.add(deployment)
        return play(self, GPT_OSS, question)

    monkeypatch.setattr(Recorded, "ask", spy)
    asked(kv_dtype="fp8")
    assert deployments == {dataclasses.replace(GPT_OSS, kv_dtype="fp8")}
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    assert profile.kv_bytes(1024.0) == 18 * 2 * 8 * 64 * (1024 + 128)


def test_memory_is_what_the_weights_leave_less_the_engine() -> None:
    answer = asked()
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    assert profile.memory is not None
    recorded = Recorded(Path())
    told = [recorded.ask(GPT_OSS, question).memory for question in QUESTIONS if question.figure == "decode"]
    most = max(memory.engine_bytes for memory in told if memory)
    assert told[0] is not None
    assert profile.memory.usable_bytes == pytest.approx(8 * (told[0].capacity_bytes - most), abs=1e7)
    assert profile.memory.weights_bytes == pytest.approx(8 * told[0].weights_bytes, abs=1e7)
    assert "each key and value on one GPU" in answer.provenance["memory"]


def test_copies_of_keys_take_memory_that_plans_cannot_use() -> None:
    layers = [
        {"attention": "gqa", "kv_heads": 2},
        {"attention": "kda", "heads": 32},
        {"attention": "swa", "kv_heads": 4},
    ]
    assert copies_of_keys(layers, 8) == 4
    assert copies_of_keys([{"attention": "dsa"}], 8) == 8
    assert copies_of_keys([{"attention": "gqa", "kv_heads": 16}], 8) == 1
    Path("config.json").write_text(
        json.dumps({"model_type": "deepseek_v3", "num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}),
        encoding="utf-8",
    )
    asked(kv_from="config.json")
    assert load_model("m.yaml").profile("H200") is not None
    free = [profile.memory.kv_bytes for profile in load_model("m.yaml").profiles if profile.memory]
    asked(force=True)
    whole = [profile.memory.kv_bytes for profile in load_model("m.yaml").profiles if profile.memory]
    assert free[0] == pytest.approx(whole[0] / 8, rel=1e-3)


def test_sizes_that_no_layers_state_leave_the_memory_out_and_say_so() -> None:
    answer = asked(kv_from="internal-1t")
    assert any(note.startswith("memory is left out") for note in answer.warnings)
    assert "memory" not in answer.model_yaml


def test_the_model_can_be_planned() -> None:
    asked()
    scenario = {
        "model": "m.yaml",
        "workload": "prfaas-case-study",
        "clusters": {
            "prfaas": {"role": "prefill", "hardware": "H200", "instances": 2},
            "pd": {"role": "pd", "hardware": "H200", "instances": 4},
        },
        "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
        "slo": {"tokens_per_s": 40},
    }
    found = plan(scenario)
    assert found.throughput_rps > 0
    assert found.provenance["pd"].prefill.startswith("derived")


def test_refused_lengths_are_left_out_and_listed() -> None:
    answer = asked(of("prefill", 65536, 131072))
    assert [row.length_tokens for row in answer.prefill] == [1024, 2048, 4096, 8192, 16384, 32768]
    (left,) = answer.left_out
    assert (left.where, left.figure, left.reason) == ("64K, 128K", "prefill", "refused: made to refuse")
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    assert profile.prefill_s.measured_high_tokens == 32768


def test_lengths_beyond_the_config_are_asked_for_only_by_name() -> None:
    config = {"model_type": "llama", "num_hidden_layers": 8, "num_attention_heads": 8, "hidden_size": 512}
    Path("config.json").write_text(json.dumps(config | {"max_position_embeddings": 16384}), encoding="utf-8")
    answer = asked(kv_from="config.json")
    assert [row.length_tokens for row in answer.prefill] == [1024, 2048, 4096, 8192, 16384]
    assert "--length asks for longer prompts" in answer.left_out[0].reason
    assert answer.decode_form == "by batch and context"
    assert {row.context_tokens for row in answer.decode} == {1024, 8192}
    longer = asked(kv_from="config.json", lengths=["1K", 32768], force=True)
    assert [row.length_tokens for row in longer.prefill] == [1024, 32768]
    assert any("beyond the 16,384" in note for note in longer.warnings)


def test_a_split_that_the_database_lacks_is_an_error_with_other_ways() -> None:
    found = problems(expert_tensor_parallel=8)
    (text,) = found.values()
    assert "MoE data missing" in text
    assert "--backend sglang, vllm" in text
    assert "site-packages" not in text
    assert SPLIT_EXPERTS.expert_parallel == 1


def test_a_model_that_does_not_fit_is_an_error_with_both_sizes() -> None:
    text = problems(model=DEEPSEEK.model, system="h100_sxm")["--system"]
    assert "takes 95.3 GB of each GPU, expected at most what it has, 85.9 GB" in text


def test_prompts_that_fit_only_in_chunks_are_taken_with_a_note() -> None:
    def unfit(question: Question, answer: Answer) -> Answer:
        return dataclasses.replace(answer, fits=question.tokens < 65536)

    answer = asked(unfit)
    assert len(answer.prefill) == 8
    assert any(note.startswith("prompts of 64K, 128K do not fit in memory") for note in answer.warnings)


def test_prompts_that_do_not_fit_in_chunks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Recorded.ask

    def unfit_from_64k(self: Recorded, deployment: Deployment, question: Question) -> Answer:
        answer = play(self, deployment, dataclasses.replace(question, cached_tokens=0))
        return dataclasses.replace(answer, fits=question.tokens < 65536)

    monkeypatch.setattr(Recorded, "ask", unfit_from_64k)
    answer = asked(chunk="64K")
    assert max(row.length_tokens for row in answer.prefill) == 32768
    assert answer.left_out[0].where == "64K, 128K"
    assert answer.left_out[0].reason == "does not fit in memory, even in chunks"


def test_chunks_are_asked_for_over_those_before_them_and_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Recorded.ask

    def quadratic(self: Recorded, deployment: Deployment, question: Question) -> Answer:
        if question.figure == "decode":
            return play(self, deployment, question)
        new, seen = question.tokens - question.cached_tokens, question.cached_tokens
        assert new <= 8192
        latency_ms = 2.0 + 0.01 * new + 1e-7 * ((seen + new) ** 2 - seen**2)
        answer = play(self, deployment, Question("prefill", 1024))
        return dataclasses.replace(answer, latency_ms=latency_ms, origin_ms={"silicon": latency_ms}, fits=True)

    monkeypatch.setattr(Recorded, "ask", quadratic)
    answer = asked(chunk="8K", lengths=["1K", "8K", "12K", "32K"])
    expected_s = {
        length: (2.0 * calls + 0.01 * length + 1e-7 * length**2) / 1000
        for length, calls in ((1024, 1), (8192, 1), (12288, 2), (32768, 4))
    }
    assert {row.length_tokens: row.latency_s for row in answer.prefill} == pytest.approx(expected_s, rel=1e-4)
    assert answer.provenance["prefill"].endswith(", in chunks of 8K")
    assert "chunks" not in answer.provenance["decode"]
    assert answer.estimated_by is not None
    assert answer.estimated_by.chunk_tokens == 8192


@pytest.mark.parametrize("bad_ms", [math.nan, 0.0, -1.0, None])
def test_a_prompt_with_a_bad_chunk_is_left_out(monkeypatch: pytest.MonkeyPatch, bad_ms: float | None) -> None:
    play = Recorded.ask

    def bad_from_8k(self: Recorded, deployment: Deployment, question: Question) -> Answer:
        answer = play(self, deployment, dataclasses.replace(question, cached_tokens=0))
        if question.cached_tokens < 8192:
            return answer
        if bad_ms is None:
            raise RefusedError("no prefix as long")
        return dataclasses.replace(answer, latency_ms=bad_ms)

    monkeypatch.setattr(Recorded, "ask", bad_from_8k)
    answer = asked(chunk="4K")
    assert [row.length_tokens for row in answer.prefill] == [1024, 2048, 4096, 8192]
    assert answer.left_out[0].where == "16K, 32K, 64K, 128K"


def test_unknown_names_are_told_all_at_once_with_those_that_are_known() -> None:
    found = problems(model="openai/gpt-oss-12b", system="h20_sxm", backend="sglan", database_mode="silicone")
    assert "did you mean openai/gpt-oss-120b" in found["MODEL"]
    assert "h100_sxm, h200_sxm" in found["--system"]
    assert "did you mean sglang?" in found["--backend"]
    assert "did you mean silicon?" in found["--database-mode"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"expert_tensor_parallel": 3}, "--moe-tp"),
        ({"expert_tensor_parallel": 0}, "--moe-tp"),
        ({"gpus": 0}, "--gpus-per-instance"),
        ({"name": "a b"}, "--as"),
        ({"hardware": " "}, "--hardware"),
        ({"lengths": ["19.4K"]}, "--length"),
        ({"lengths": ["8K"]}, "--length"),
        ({"kv_dtype": "fp4"}, "--kv-dtype"),
        ({"chunk": "0"}, "--chunk"),
        ({"chunk": "much"}, "--chunk"),
    ],
)
def test_wrong_arguments_are_errors(options: dict[str, Any], where: str) -> None:
    assert where in problems(**options)


def test_a_model_without_a_config_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorded, "config", lambda _self, _model: None)
    assert "name the model's config.json" in problems()["--kv-from"]


def test_a_folder_with_a_config_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Recorded.ask
    monkeypatch.setattr(Recorded, "ask", lambda self, _deployment, question: play(self, GPT_OSS, question))
    monkeypatch.setattr(Recorded, "config", lambda _self, model: Path(model, "config.json"))
    Path("house-moe").mkdir()
    Path("house-moe/config.json").write_text(json.dumps(CONFIGS[GPT_OSS.model]), encoding="utf-8")
    answer = asked(model="house-moe")
    assert (answer.name, answer.kv_cache_from) == ("house-moe", "house-moe/config.json")


def test_a_file_that_is_there_is_kept() -> None:
    Path("m.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="is there already"):
        asked()
    assert Path("m.yaml").read_text(encoding="utf-8") == "mine"


def test_the_name_and_the_hardware_follow_from_model_and_system() -> None:
    answer = asked(output=None)
    assert (answer.name, answer.hardware, answer.file) == ("gpt-oss-120b", "H200", "models/gpt-oss-120b.yaml")


def test_a_fall_within_noise_is_lifted_and_told() -> None:
    answer = asked()
    steps = {(row.batch, row.context_tokens): row.step_s for row in answer.decode}
    assert steps[1, 8192] == steps[1, 1024] == 0.0041691  # answered: 4.1253 ms
    assert any("up to 1.1 % faster" in note for note in answer.warnings)
    assert "lifted by at most 1.1 %" in answer.provenance["decode"]


def test_a_larger_fall_stays_and_is_told() -> None:
    def fast(question: Question, answer: Answer) -> Answer:
        halve = question == Question("decode", 8192, 256) or question == Question("prefill", 131072)
        return dataclasses.replace(answer, latency_ms=answer.latency_ms / 8) if halve else answer

    answer = asked(fast)
    steps = {(row.batch, row.context_tokens): row.step_s for row in answer.decode}
    assert steps[256, 8192] == pytest.approx(0.014029 / 8, rel=1e-4)
    assert any("the decode step gets faster as the batch grows" in note for note in answer.warnings)
    assert any("prefill latency falls from 65,536 to 131,072 tokens" in note for note in answer.warnings)


def test_a_gap_takes_its_batch_from_the_table() -> None:
    answer = asked(lambda question, answer: None if question == Question("decode", 131072, 256) else answer)
    assert {row.batch for row in answer.decode} == set(BATCHES) - {256}
    assert answer.decode_form == "by batch and context"
    assert [left.where for left in answer.left_out] == ["batch 256 at 128K", "batch 256 at 1K and 2 other steps"]


def test_a_step_longer_than_two_of_half_the_batch_is_an_error_in_the_data() -> None:
    def slow(question: Question, answer: Answer) -> Answer:
        factor = 4.0 if question == Question("decode", 1024, 256) else 1.0
        return dataclasses.replace(answer, latency_ms=answer.latency_ms * factor)

    answer = asked(slow)
    assert {row.batch for row in answer.decode} == set(BATCHES) - {256}
    assert answer.left_out[0].where == "batch 256 at 1K"
    assert answer.left_out[0].reason.startswith("takes longer than two steps of half the batch")


def test_a_context_without_answers_is_not_in_the_table() -> None:
    answer = asked(of("decode", 131072))
    assert {row.context_tokens for row in answer.decode} == {1024, 8192, 32768}
    assert {row.batch for row in answer.decode} == set(BATCHES)
    assert [left.where for left in answer.left_out] == ["batch 1 at 128K and 8 other steps"]


def test_without_decode_the_profile_only_prefills() -> None:
    answer = asked(of("decode", *CONTEXTS_TOKENS))
    assert (answer.decode, answer.decode_form) == ((), None)
    assert any("cannot decode" in note for note in answer.warnings)
    profile = load_model("m.yaml").profile("H200")
    assert profile is not None
    assert profile.decode is None


BAD_MS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, -3.5, None])
FACTORS = st.floats(min_value=0.2, max_value=5)
MUTATIONS = st.dictionaries(st.sampled_from(QUESTIONS), st.one_of(BAD_MS, FACTORS), max_size=len(QUESTIONS))


def test_a_jump_that_no_machine_makes_is_refused_and_nothing_written() -> None:
    jump = dict.fromkeys(QUESTIONS[:1], 93.0)
    found = problems(lambda q, answer: dataclasses.replace(answer, latency_ms=answer.latency_ms * jump.get(q, 1.0)))
    assert all("nothing was written" in text for text in found.values())


def is_bad(factor: float | None) -> bool:
    return factor is None or not math.isfinite(factor) or factor <= 0


@settings(max_examples=100)
@given(mutated=MUTATIONS)
def test_no_mutated_answer_gives_a_wrong_or_half_written_file(mutated: dict[Question, float | None]) -> None:
    def change(question: Question, answer: Answer) -> Answer | None:
        factor = mutated.get(question, 1.0)
        if factor is None:
            return None
        return dataclasses.replace(answer, latency_ms=factor if is_bad(factor) else answer.latency_ms * factor)

    bad = {question for question, factor in mutated.items() if is_bad(factor)}
    good = {question.tokens for question in QUESTIONS if question.figure == "prefill" and question not in bad}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if len(good) < 2:
            with pytest.raises(InputError):
                asked(change, folder)
            assert list(folder.glob("*.yaml")) == []
            return
        answer = asked(change, folder)
        assert [path.name for path in folder.glob("*.yaml")] == ["m.yaml"]
        model = load_model(str(folder / "m.yaml"))
        recorded = Recorded(folder, change)
    profile = model.profile("H200")
    assert profile is not None
    assert {row.length_tokens for row in answer.prefill} == good
    for row in answer.prefill:
        answered_ms = recorded.ask(GPT_OSS, Question("prefill", row.length_tokens)).latency_ms
        assert profile.prefill_s(float(row.length_tokens)) == pytest.approx(answered_ms / 1000, rel=1e-4)
    steps = {(row.batch, row.context_tokens): row.step_s for row in answer.decode}
    for (batch, context), step_s in steps.items():
        assert context is not None
        question = Question("decode", context, batch)
        assert question not in bad
        answered_s = recorded.ask(GPT_OSS, question).latency_ms / 1000
        assert answered_s * (1 - 1e-4) <= step_s <= answered_s * 1.0501
    assert len(steps) == len({batch for batch, _ in steps}) * len({context for _, context in steps})
    assert answer.left_out or not bad
    latencies = [row.latency_s for row in answer.prefill]
    if any(later < earlier for earlier, later in itertools.pairwise(latencies)):
        assert any("prefill latency falls" in note for note in answer.warnings)
    assert set(model.warnings) <= set(answer.warnings)
