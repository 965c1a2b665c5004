"""An estimator that plays recorded answers back, and how they were recorded."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prfaas_opt.io.estimated_profile import BATCHES, CONTEXTS_TOKENS, LENGTHS_TOKENS
from prfaas_opt.io.estimator import Answer, Deployment, Estimator, GpuMemory, Question, RefusedError

RECORDING = Path(__file__).parent / "recorded" / "aiconfigurator.json"

GPT_OSS = Deployment("openai/gpt-oss-120b", "h200_sxm", "trtllm", 8, 1, "bf16", "silicon")
SPLIT_EXPERTS = dataclasses.replace(GPT_OSS, expert_tensor_parallel=8)
DEEPSEEK = Deployment("deepseek-ai/DeepSeek-V3", "h100_sxm", "trtllm", 8, 1, "bf16", "silicon")
"""What was recorded: all of a model, a split that the database lacks, and a model that does not fit."""

QUESTIONS = [Question("prefill", length) for length in LENGTHS_TOKENS]
QUESTIONS += [Question("decode", context, batch) for batch in BATCHES for context in CONTEXTS_TOKENS]

CONFIGS: dict[str, dict[str, Any]] = {
    "openai/gpt-oss-120b": {
        "model_type": "gpt_oss",
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "hidden_size": 2880,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 18,
        "max_position_embeddings": 131072,
    },
    "deepseek-ai/DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 163840,
    },
}

Change = Callable[[Question, Answer], Answer | None]


class Recorded:
    """Plays the recording back; ``change`` may alter an answer, or refuse it by None."""

    name = "aiconfigurator"
    backends = ("trtllm", "sglang", "vllm")
    database_modes = ("silicon", "hybrid", "empirical", "sol")

    def __init__(self, folder: Path, change: Change = lambda _question, answer: answer) -> None:
        recording = json.loads(RECORDING.read_text(encoding="utf-8"))
        self.version: str = recording["version"]
        self.models: Sequence[str] = recording["models"]
        self.systems: Sequence[str] = recording["systems"]
        self._folder, self._change = folder, change
        self._answers = {
            (Deployment(**each["deployment"]), Question(*key)): found
            for each in recording["asked"]
            for key, found in each["answers"]
        }

    def config(self, model: str) -> Path | None:
        if model not in CONFIGS:
            return None
        path = self._folder / f"{model.replace('/', '--')}_config.json"
        path.write_text(json.dumps(CONFIGS[model]), encoding="utf-8")
        return path

    def ask(self, deployment: Deployment, question: Question) -> Answer:
        found = self._answers.get((deployment, question), "not recorded")
        if isinstance(found, str):
            raise RefusedError(found)
        answer = self._change(question, Answer(**(found | {"memory": GpuMemory(*found["memory"]), "notes": ()})))
        if answer is None:
            raise RefusedError("made to refuse")
        return answer


def record(estimator: Estimator, asked: Mapping[Deployment, Sequence[Question]]) -> dict[str, Any]:
    """The content of the recording: all answers of an estimator, a refusal as its text."""
    return {
        "version": estimator.version,
        "models": list(estimator.models),
        "systems": list(estimator.systems),
        "asked": [
            {
                "deployment": dataclasses.asdict(deployment),
                "answers": [[dataclasses.astuple(q), _recorded(estimator, deployment, q)] for q in questions],
            }
            for deployment, questions in asked.items()
        ],
    }


def _recorded(estimator: Estimator, deployment: Deployment, question: Question) -> Any:
    try:
        answer = estimator.ask(deployment, question)
    except RefusedError as error:
        return str(error)
    assert answer.memory is not None
    return {
        "latency_ms": float(f"{answer.latency_ms:.8g}"),
        "fits": answer.fits,
        "engine": answer.engine,
        "formats": answer.formats,
        "origin_ms": {name: float(f"{ms:.5g}") for name, ms in answer.origin_ms.items()},
        "memory": [float(f"{size:.6g}") for size in dataclasses.astuple(answer.memory)],
    }


def main() -> None:
    """Records anew, with the real package: ``python -m tests.estimators``."""
    from prfaas_opt.io.aiconfigurator_package import open_aiconfigurator

    prefill = [question for question in QUESTIONS if question.figure == "prefill"]
    asked = {GPT_OSS: QUESTIONS, SPLIT_EXPERTS: prefill, DEEPSEEK: prefill}
    content = json.dumps(record(open_aiconfigurator(), asked))
    RECORDING.write_text(
        content.replace('[["', '\n[["').replace('{"deployment', '\n{"deployment') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
