"""Files of benchmarks overwritten or cut off: each gives a profile or an ``InputError``, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.import_api import import_measured
from tests import benchmarks as made

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "formats"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    Path("good.json").write_text(json.dumps([made.vllm_serve(), made.vllm_serve(4000, 400.0)]), encoding="utf-8")


def mutated(content: bytes, data: st.DataObject) -> bytes:
    """With one to three places overwritten, or cut off behind."""
    raw = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        if not raw:
            break
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at : at + data.draw(st.integers(1, 30))] = data.draw(
                st.sampled_from([b"", b"0", b"-", b"NaN", b"null", b"1e400", b"[", b'"', b",", b"\xff", b"{}", b"\n"])
            )
        if data.draw(st.booleans()):
            del raw[data.draw(st.integers(0, len(raw))) :]
    return bytes(raw)


def check_profile_or_problems(name: str) -> None:
    problems: list[Problem] = []
    latencies: list[float] = []
    try:
        answer = import_measured([name, "good.json"], "m", "H200", 2, kv_from="internal-1t", force=True)
        latencies = [point.latency_s for point in answer.prefill]
    except InputError as error:
        problems = list(error.problems)
    assert bool(problems) != bool(latencies)
    assert all(problem.where and problem.message for problem in problems)
    assert all(1e-7 <= latency <= 1e4 for latency in latencies)


@pytest.mark.parametrize("form", made.MINIMAL)
@hypothesis.settings(max_examples=60, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_mutated_files_give_a_profile_or_an_input_error(form: str, data: st.DataObject) -> None:
    name, content = made.MINIMAL[form]
    Path(name).write_bytes(mutated(content if isinstance(content, bytes) else content.encode(), data))
    check_profile_or_problems(name)


@pytest.mark.parametrize("pattern", ["vllm/*y1-*.json", "sglang/*", "aiperf/*aiperf*", "genai-perf/*", "dynamo/*.npz"])
@hypothesis.settings(max_examples=25, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(data=st.data())
def test_mutated_samples_give_a_profile_or_an_input_error(pattern: str, data: st.DataObject) -> None:
    samples = sorted(SAMPLES.glob(pattern))
    if not samples:
        pytest.skip("the samples of benchmarks are not beside this checkout")
    sample = data.draw(st.sampled_from(samples))
    Path(sample.name).write_bytes(mutated(sample.read_bytes(), data))
    check_profile_or_problems(sample.name)
